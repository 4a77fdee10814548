package semel_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// clients.md 12: the body is closed on every path, once.
func TestTheCallersBodyIsClosedExactlyOnce(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	broken := errors.New("the disk is gone")
	for _, c := range []struct {
		rule   string
		script step
		edit   func(*semel.Transport)
		ctx    context.Context
		source io.Reader
		sends  int
	}{
		{rule: "an answer", script: reply(200, ""), sends: 1},
		{rule: "a streamed answer", script: reply(200, "data: x", "Content-Type", "text/event-stream"), sends: 1},
		{rule: "no attempts left", script: reply(503, ""), sends: 4},
		{rule: "a lost reply", script: lose, sends: 4},
		{rule: "the context is done before", script: reply(200, ""), ctx: cancelled},
		{rule: "the wait is too long", script: reply(503, "", "Retry-After", "3600"), sends: 1},
		{rule: "the budget is empty", script: reply(503, ""), edit: func(tr *semel.Transport) { tr.Retry.Budget = &semel.Budget{Max: 0.5, Cost: 0.5} }, sends: 2},
		{rule: "the schedule stops", script: reply(503, ""), edit: func(tr *semel.Transport) { tr.Retry.Backoff = func() semel.Backoff { return constant(-1) } }, sends: 1},
		{rule: "nobody listens", edit: func(tr *semel.Transport) { tr.Base = dialing(syscall.ECONNREFUSED) }},
		{rule: "the body fails", script: reply(200, ""), source: io.MultiReader(strings.NewReader("ab"), errReader{broken}), sends: 0},
		{rule: "a timeout", script: silence, edit: func(tr *semel.Transport) { tr.Retry.AttemptTimeout = time.Second }, sends: 3}, // the budget has two timeouts
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				src := newSource("body")
				if c.source != nil {
					src.Reader = c.source
				}
				edit := c.edit
				if edit == nil {
					edit = func(*semel.Transport) {}
				}
				req := stream(s.post(t, ""), src, 4)
				if c.ctx != nil {
					req = req.WithContext(c.ctx)
				}
				resp, err := s.client(edit).Do(req)
				if err == nil {
					read(t, resp)
				}
				time.Sleep(time.Second)
				src.closedOnce(t)
				if c.source != nil {
					require.ErrorIs(t, err, broken) // faults.md 9
					require.Equal(t, 1, failed(t, err).Attempts, "it cannot be sent again")
				} else {
					require.Len(t, s.requests(), c.sends)
				}
			}, c.script)
		})
	}
}

// A body that is written while the reply is read: nothing may be read ahead of it, and nothing may wait for its end.
func TestABodyMayBeWrittenWhileTheReplyIsRead(t *testing.T) {
	s := newSite(t)
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			io.WriteString(w, "echo "+lines.Text()+"\n")
			http.NewResponseController(w).Flush()
		}
	})
	for _, mime := range []string{"application/x-ndjson", "text/plain"} {
		r, w := io.Pipe()
		req := stream(s.post(t, ""), r, -1)
		req.Header.Set("Content-Type", mime)
		go io.WriteString(w, "one\n")
		resp, err := s.client().Do(req)
		require.NoError(t, err)
		replies := bufio.NewScanner(resp.Body)
		for _, line := range []string{"one", "two", "three"} {
			require.True(t, replies.Scan())
			require.Equal(t, "echo "+line, replies.Text())
			if line != "three" {
				go io.WriteString(w, map[string]string{"one": "two\n", "two": "three\n"}[line])
			}
		}
		require.NoError(t, w.Close())
		require.False(t, replies.Scan())
		require.NoError(t, resp.Body.Close())
	}
}

func TestAWriterIsLetGoWhenTheReplyComesEarly(t *testing.T) {
	s := newSite(t)
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(413) }) // faults.md 12
	r, w := io.Pipe()
	written := make(chan error)
	go func() {
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				written <- err
				return
			}
		}
	}()
	resp, err := s.client().Do(stream(s.post(t, ""), r, -1))
	if err == nil { // or the server's reset came first
		require.Equal(t, 413, resp.StatusCode)
		read(t, resp)
	}
	require.ErrorIs(t, <-written, io.ErrClosedPipe)
}

func TestAPipeWhoseBeginningWasKeptGoesOnInTheNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, "one ")
			time.Sleep(time.Minute)
			io.WriteString(w, "two")
			w.Close()
		}()
		n := 0
		resp, err := s.client(func(tr *semel.Transport) {
			tr.Retry.AttemptTimeout = 2 * time.Minute
			tr.Base = base(func(r *http.Request) (*http.Response, error) {
				if n++; n == 1 {
					io.ReadFull(r.Body, make([]byte, 4))
					return nil, io.ErrUnexpectedEOF
				}
				return s.base.RoundTrip(r)
			})
		}).Do(stream(s.post(t, ""), r, -1))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, "one two", s.requests()[0].body)
	}, reply(201, ""))
}

func TestAReadUnderWayIsNotLostForTheNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		r, w := io.Pipe()
		go func() {
			time.Sleep(time.Minute)
			io.WriteString(w, "late")
			w.Close()
		}()
		n := 0
		resp, err := s.client(func(tr *semel.Transport) {
			tr.Retry.AttemptTimeout = 10 * time.Minute
			tr.Base = base(func(r *http.Request) (*http.Response, error) {
				if n++; n == 1 {
					go r.Body.Read(make([]byte, 4)) // blocks, and ends when the second attempt is there
					time.Sleep(time.Second)
					return nil, io.ErrUnexpectedEOF
				}
				return s.base.RoundTrip(r)
			})
		}).Do(stream(s.post(t, ""), r, -1))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, "late", s.requests()[0].body)
	}, reply(201, ""))
}

func TestABodyIsHeldBackUntilTheServerWantsIt(t *testing.T) {
	for _, status := range []int{201, 409} {
		inBubble(t, func(t *testing.T, s *site) {
			s.base.ExpectContinueTimeout = time.Hour
			req := s.post(t, "body")
			req.Header.Set("Expect", "100-continue") // faults.md 11
			resp, err := s.client().Do(req)
			require.NoError(t, err)
			require.Equal(t, status, resp.StatusCode)
			read(t, resp)
			require.Equal(t, "body", s.requests()[0].body)
		}, reply(status, ""))
	}
}
