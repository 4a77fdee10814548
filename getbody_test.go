package semel_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// Each attempt opens the body anew, the first too.
func TestTheFirstAttemptSendsTheWholeBodyWhateverWasReadOfIt(t *testing.T) {
	const text = "hello, world"
	for kind, reader := range map[string]func() io.Reader{
		"a string": func() io.Reader { return strings.NewReader(text) },
		"bytes":    func() io.Reader { return bytes.NewReader([]byte(text)) },
		"a buffer": func() io.Reader { return bytes.NewBufferString(text) },
	} {
		for state, spoil := range map[string]func(*testing.T, *http.Request){
			"unread":      func(*testing.T, *http.Request) {},
			"half read":   func(t *testing.T, r *http.Request) { io.ReadFull(r.Body, make([]byte, 5)) },
			"read":        func(t *testing.T, r *http.Request) { io.Copy(io.Discard, r.Body) },
			"the longer":  func(_ *testing.T, r *http.Request) { r.Body = io.NopCloser(strings.NewReader(text + text)) },
			"read to end": func(_ *testing.T, r *http.Request) { r.Body = io.NopCloser(bytes.NewReader(nil)) },
		} {
			t.Run(kind+"/"+state, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					req, err := http.NewRequest("POST", s.URL, reader())
					require.NoError(t, err)
					spoil(t, req)
					for range 2 { // the same request again is as good, whatever the first left of its body
						resp, err := s.client().Do(req)
						require.NoError(t, err)
						read(t, resp)
					}
					all := s.requests()
					require.Len(t, all, 4)
					for _, a := range all {
						require.Equal(t, text, a.body)
						require.Equal(t, int64(len(text)), a.ContentLength)
					}
				}, lose, reply(200, ""), reply(503, ""), reply(200, ""))
			})
		}
	}
}

// What is bound is what is sent: the fingerprint was made of what GetBody returns.
func TestABoundOperationSendsWhatGetBodyReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		req := s.post(t, "hello")
		req.Body = io.NopCloser(strings.NewReader("hallo"))
		op := semel.NewOperation("")
		require.NoError(t, op.Bind(req))
		resp, err := s.client().Do(req.WithContext(op.Context(context.Background())))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, "hello", s.requests()[0].body)
	}, reply(200, ""))
}
