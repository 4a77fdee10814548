//go:build unix

package pgstore_test

import (
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program finds a daemon's binary where Debian and Homebrew put it, or fails.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	for _, dir := range append([]string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/usr/local/bin"},
		filepath.SplitList(os.Getenv("PATH"))...) {
		if path, err := osexec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	t.Fatalf("this test needs %s: apt-get install %s, or brew install %s", name, pkg, name)
	return ""
}

// startDaemon writes the configuration, in which DIR and PORT are replaced, starts the daemon and returns its address
// once it takes connections.
func startDaemon(t *testing.T, config string, command func(file string) []string) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	file := filepath.Join(dir, "config")
	config = strings.NewReplacer("DIR", dir, "PORT", port).Replace(config)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := command(file)
	cmd := osexec.Command(args[0], args[1:]...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
	})
	for range 500 {
		select {
		case <-exited:
			t.Fatalf("%s ended:\n%s", strconv.Quote(args[0]), said.String())
		default:
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s takes no connections", args[0])
	return ""
}
