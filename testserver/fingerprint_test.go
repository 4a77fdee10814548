package testserver

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatMakesARequestTheSame(t *testing.T) {
	print := func(method, target, contentType, body string, header ...string) Fingerprint {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("Content-Type", contentType)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return fingerprintOf(r, []byte(body))
	}
	base := print("POST", "/a?q=1", "application/json", `{"n":1}`)
	for name, other := range map[string]Fingerprint{
		"method":                          print("PATCH", "/a?q=1", "application/json", `{"n":1}`),
		"path":                            print("POST", "/b?q=1", "application/json", `{"n":1}`),
		"escaped path":                    print("POST", "/%61?q=1", "application/json", `{"n":1}`),
		"query":                           print("POST", "/a?q=2", "application/json", `{"n":1}`),
		"content type":                    print("POST", "/a?q=1", "text/plain", `{"n":1}`),
		"one byte of the body":            print("POST", "/a?q=1", "application/json", `{"n":2}`),
		"a number written otherwise, B32": print("POST", "/a?q=1", "application/json", `{"n":1.0}`),
		"space in the body":               print("POST", "/a?q=1", "application/json", `{"n": 1}`),
		"a part that moves over the border, path":  print("POST", "/a", "application/json", `{"n":1}`),
		"a part that moves over the border, type":  print("POST", "/a?q=1", "application/json{", `"n":1}`),
		"a part that moves over the border, query": print("POST", "/a?q=", "1application/json", `{"n":1}`),
	} {
		require.NotEqual(t, base, other, name)
	}
	require.NotEqual(t, print("POST", "/", "", "9007199254740993"), print("POST", "/", "", "9007199254740992")) // servers.md B32
	require.NotEqual(t, print("POST", "/", "", strings.Repeat("x", 1<<20)), print("POST", "/", "", strings.Repeat("x", 1<<20-1)+"y"))
	require.Equal(t, base, print("POST", "/a?q=1", "application/json", `{"n":1}`, "Authorization", "Bearer other"), "servers.md B33")
}
