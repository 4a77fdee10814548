//go:build unix

package pgstore_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-go/semel/testserver"
)

const serverEnv = "SEMEL_TEST_SERVER"

// TestMain makes a server process of this binary if a test started it as one.
func TestMain(m *testing.M) {
	if spec := os.Getenv(serverEnv); spec != "" {
		serve(spec)
		return
	}
	os.Exit(m.Run())
}

// A serverSpec is what a server process is told.
type serverSpec struct {
	DSN      string
	Effect   testserver.Effect
	Lease    time.Duration
	Conns    int32
	Pooler   bool
	Provider string
	Deaf     bool // all of its replies are lost

	Isolation pgx.TxIsoLevel
}

// A process is a server in a process of its own, started again whenever it dies, on the same address: as under systemd,
// the listening socket outlives it and holds connections that come in between.
type process struct {
	addr string
	env  []string
	file *os.File

	mu      sync.Mutex // guards the fields below
	cmd     *osexec.Cmd
	deaths  int
	closing bool
	stderr  bytes.Buffer
}

func startProcess(t *testing.T, spec serverSpec, env ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.(*net.TCPListener).File()
	l.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{addr: l.Addr().String(), file: file, env: append(append(os.Environ(), env...), serverEnv+"="+string(said))}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.supervise(t)
	}()
	t.Cleanup(func() {
		p.mu.Lock()
		p.closing = true
		p.mu.Unlock()
		p.Kill()
		<-ended
		file.Close()
	})
	return p
}

// Kill ends the process by SIGKILL; it is started again.
func (p *process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
	}
}

// Resume lets a stopped process go on, and returns once it has dealt with all it had to do.
func (p *process) Resume(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	err := p.cmd.Process.Signal(syscall.SIGCONT)
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + p.addr + "/drain")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the server cannot drain: %s", resp.Status)
	}
}

// Deaths returns how often the process was killed, by whomever.
func (p *process) Deaths() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaths
}

func (p *process) supervise(t *testing.T) {
	for {
		life, cmd := p.start(t)
		if cmd == nil {
			return
		}
		err := cmd.Wait()
		life.Close()
		p.mu.Lock()
		p.cmd = nil
		p.deaths++
		closing, said := p.closing, p.stderr.String()
		p.mu.Unlock()
		if closing {
			return
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Errorf("a server process ended by itself: %v\n%s", err, said)
			return
		}
	}
}

// start starts the process. It ends when the returned pipe is closed, and so with this process at the latest.
func (p *process) start(t *testing.T) (io.Closer, *osexec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil, nil
	}
	cmd := osexec.Command(os.Args[0])
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = p.env, []*os.File{p.file}, &p.stderr
	life, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Errorf("cannot start a server process: %v", err)
		return nil, nil
	}
	p.cmd = cmd
	return life, cmd
}
