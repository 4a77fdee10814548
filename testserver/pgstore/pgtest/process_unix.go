//go:build unix

package pgtest

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	osexec "os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// serverUser is whom the server runs as: Postgres refuses to run as root. Nil means the user of this process.
var serverUser = sync.OnceValue(func() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
})

// asServerUser lets a process run as the server's user, away from this process's terminal and its signals.
func asServerUser() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: serverUser()}
}

// tempDir makes a directory that belongs to the server's user.
func tempDir() (string, error) {
	parent := ""
	if serverUser() != nil {
		parent = "/tmp" // root's TMPDIR may be closed to others
	}
	dir, err := os.MkdirTemp(parent, "semel-pg-")
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	return dir, giveToServerUser(dir)
}

// giveToServerUser makes the server's user own the directory and all in it, so that the watchdog, who is that user, can
// remove it.
func giveToServerUser(dir string) error {
	u := serverUser()
	if u == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(u.Uid), int(u.Gid))
	})
}

// watchScript waits until nobody holds the other end of its standard input, stops the server in the directory $1, if
// there is one, and removes the directory.
const watchScript = `
cd /
read -r _
pidfile=$1/data/postmaster.pid
if [ -f "$pidfile" ]; then
	read -r pid <"$pidfile"
	kill -QUIT "$pid"
	i=0
	while [ -f "$pidfile" ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
fi
rm -rf "$1"
`

// A watchdog is a small process that cleans up once this process is gone, even if it was killed: it holds the reading
// end of a pipe, whose other end the kernel closes.
type watchdog struct {
	life io.Closer
	gone chan struct{}
}

// watch starts a watchdog over the directory.
func watch(dir string) (*watchdog, error) {
	cmd := osexec.Command("/bin/sh", "-c", watchScript, "watchdog", dir)
	cmd.SysProcAttr = asServerUser()
	life, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("pgtest: cannot start the process that cleans up: %w", err)
	}
	w := &watchdog{life, make(chan struct{})}
	go func() {
		defer close(w.gone)
		_ = cmd.Wait()
		life.Close() // held until here: the pipe must not be closed when w becomes garbage
	}()
	return w, nil
}

// end cleans up now, and returns once that is done.
func (w *watchdog) end() {
	w.life.Close()
	<-w.gone
}

func freePort() uint32 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 5432
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port)
}
