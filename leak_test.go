package semel_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
)

// No goroutine outlives the tests, so none outlives a call.
func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if left := noGoroutineLeft(); left != "" {
		fmt.Fprintf(os.Stderr, "FAIL: goroutines are left\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}
