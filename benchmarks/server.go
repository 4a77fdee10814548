package benchmarks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const serverEnv = "SEMEL_BENCHMARKS_SERVER"

// ServeIfAsked makes this process the server of a [StartServer], if that started it, and then does not return. A main
// function calls it first.
func ServeIfAsked() {
	if os.Getenv(serverEnv) == "" {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr())
	go func() { // the parent's end of the pipe closes when the parent does
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	time.AfterFunc(time.Hour, func() { os.Exit(0) })
	http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, okBody)
	}))
	os.Exit(1)
}

// StartServer starts this program again as a server on loopback, so that the server's allocations are not counted as a
// client's, and returns its base URL.
func StartServer() (base string, stop func(), err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { in.Close(); cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, err
	}
	return "http://" + strings.TrimSpace(line), stop, nil
}
