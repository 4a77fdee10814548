package pgtest

import (
	"errors"
	"fmt"
	"io"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// binaries returns the directory that holds initdb and postgres.
var binaries = sync.OnceValues(func() (string, error) {
	if dir, ok := localBinaries(); ok {
		return dir, nil
	}
	dir, err := download()
	if err != nil {
		return "", fmt.Errorf("pgtest: no Postgres to test with. Point %s to a server, or install one "+
			"(apt-get install postgresql; brew install postgresql), or let it be downloaded: %w", EnvURL, err)
	}
	return dir, nil
})

// localBinaries looks on the PATH and where Debian and Homebrew put servers; of several versions it takes the newest.
func localBinaries() (string, bool) {
	var dirs []string
	if path, err := osexec.LookPath("postgres"); err == nil {
		// A link's target has initdb and the shared files beside it.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if hasServer(dir) {
			return dir, true
		}
	}
	return "", false
}

func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := osexec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// version reads the number in a directory such as /usr/lib/postgresql/15/bin; without one it is 0.
func version(bin string) int {
	name := filepath.Base(filepath.Dir(bin))
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '@')+1:])
	return n
}

// download fetches binaries by embedded-postgres. Only its download is used: it cannot start a server as root, crash
// one, or outlive a killed test. As it has no call for that, Start is given an encoding that no server has, and fails
// once the binaries are there.
func download() (string, error) {
	dir, err := tempDir()
	if err != nil {
		return "", err
	}
	w, err := watch(dir)
	if err != nil {
		return "", err
	}
	err = embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).Encoding("none").Logger(io.Discard).Port(freePort()).
		RuntimePath(filepath.Join(dir, "runtime")).BinariesPath(filepath.Join(dir, "postgres"))).Start()
	bin := filepath.Join(dir, "postgres", "bin")
	if ownErr := giveToServerUser(dir); ownErr != nil {
		w.end()
		return "", ownErr
	}
	if !hasServer(bin) {
		w.end()
		if err == nil {
			err = errors.New("the download holds no server")
		}
		return "", err
	}
	return bin, nil
}
