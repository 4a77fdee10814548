package semel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
)

func within(d time.Duration) func(*semel.Transport) {
	return func(tr *semel.Transport) { tr.Retry.AttemptTimeout, tr.Retry.Backoff = d, short }
}

// clients.md 36, 37 and 40: an attempt's time is not the caller's.
func TestAnAttemptThatTimesOutIsRepeated(t *testing.T) {
	for _, c := range []struct {
		rule    string
		client  time.Duration
		caller  time.Duration
		attempt time.Duration
		hangs   int
		took    time.Duration
		ok      bool
		sends   int
	}{
		{"the attempt's time ends first", 0, 0, time.Second, 1, time.Second, true, 2},
		{"within the client's", 10 * time.Second, 0, time.Second, 1, time.Second, true, 2},
		{"within the caller's", 0, 10 * time.Second, time.Second, 1, time.Second, true, 2},
		{"the client's ends first", time.Second, 0, 10 * time.Second, 9, time.Second, false, 1},
		{"the caller's ends first", 0, time.Second, 10 * time.Second, 9, time.Second, false, 1},
		{"the caller's ends later", 0, 1500 * time.Millisecond, time.Second, 9, 1500 * time.Millisecond, false, 2},
		{"60 seconds by default", 0, 0, 0, 1, time.Minute, true, 2},
		{"the caller's ends at the same time", 0, time.Second, time.Second, 9, time.Second, false, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				script := make([]step, c.hangs, c.hangs+1)
				for i := range script {
					script[i] = silence
				}
				s.then(append(script, reply(201, ""))...)
				client := s.client(within(c.attempt))
				client.HTTP.Timeout = c.client
				ctx := context.Background()
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				begun := time.Now()
				resp, err := client.Do(s.post(t, "x").WithContext(ctx))
				require.Equal(t, c.took, time.Since(begun).Round(time.Millisecond))
				require.Len(t, s.requests(), c.sends)
				if c.ok {
					require.NoError(t, err)
					read(t, resp)
					return
				}
				require.ErrorIs(t, err, unknown)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, failed(t, err).Timeout())
				require.Equal(t, s.keys(t)[0], failed(t, err).Key())
			})
		})
	}
}

func TestWithoutAKeyAnAttemptHasNoTimeOfItsOwn(t *testing.T) {
	for _, dialect := range []semel.Dialect{{}, semel.None} {
		inBubble(t, func(t *testing.T, s *site) {
			method := "GET"
			resp, err := s.client(func(tr *semel.Transport) { tr.Dialect = dialect }).Do(newRequest(t, method, s.URL, ""))
			require.NoError(t, err)
			read(t, resp)
			require.Len(t, s.requests(), 1)
		}, func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Minute) })
	}
	inBubble(t, func(t *testing.T, s *site) {
		resp, err := s.client(within(semel.Forever)).Do(s.post(t, "x"))
		require.NoError(t, err)
		read(t, resp)
		require.Len(t, s.requests(), 1)
	}, func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Minute) })
}

func TestAnUploadThatGoesOnIsNotTimedOut(t *testing.T) {
	for _, size := range []int{100 << 10, 3 << 20} {
		inBubble(t, func(t *testing.T, s *site) {
			s.net.Plan = func(int) semeltest.Plan { return semeltest.Plan{Latency: time.Second} }
			body := &source{Reader: &trickle{left: size, each: size / 100}} // takes 1000 s
			resp, err := s.client(within(time.Minute)).Do(stream(s.post(t, ""), body, int64(size)))
			require.NoError(t, err)
			read(t, resp)
			require.Len(t, s.requests(), 1)
			body.closedOnce(t)

			s.then(reply(201, ""))
			req := s.post(t, "x")
			req.ContentLength = int64(size)
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(&trickle{left: size, each: size / 100}), nil }
			resp, err = s.client(within(time.Minute)).Do(req)
			require.NoError(t, err)
			read(t, resp)
			require.Len(t, s.requests(), 1)
		}, reply(201, ""))
	}
}

// trickle brings each bytes every ten seconds.
type trickle struct{ left, each int }

func (r *trickle) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(10 * time.Second)
	n := min(r.each, r.left, len(b))
	r.left -= n
	return n, nil
}

func TestAnUploadThatStallsIsTimedOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) { // faults.md 8
		r, w := io.Pipe()
		go io.WriteString(w, "begun")
		begun := time.Now()
		_, err := s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 1 }).Do(stream(s.post(t, ""), r, -1))
		require.ErrorIs(t, err, unknown)
		require.WithinRange(t, time.Now(), begun.Add(time.Minute), begun.Add(68*time.Second))
		require.NoError(t, r.Close(), "and its writer is let go")
	}, reply(201, ""))
}

func TestAReplyThatComesSlowlyIsNotTimedOut(t *testing.T) {
	slowly := func(length string) step {
		return func(w http.ResponseWriter, r *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			for range 10 {
				http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Second)
				io.WriteString(w, "0123456789")
			}
		}
	}
	for _, r := range []step{slowly("100"), slowly("")} {
		for _, maxReply := range []int64{0, -1} {
			inBubble(t, func(t *testing.T, s *site) {
				resp, err := s.client(func(tr *semel.Transport) { tr.MaxReply = maxReply }).Do(s.post(t, "x"))
				require.NoError(t, err)
				require.Len(t, read(t, resp), 100)
				require.Len(t, s.requests(), 1)
			}, r)
		}
	}
}

func TestAReplyThatStallsWhileItIsReadIsFetchedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		begun := time.Now()
		resp, err := s.client().Do(s.post(t, "x"))
		require.NoError(t, err)
		require.Equal(t, "whole", read(t, resp))
		require.WithinRange(t, time.Now(), begun.Add(time.Minute), begun.Add(68*time.Second))
		require.Len(t, s.requests(), 2)
	}, func(w http.ResponseWriter, r *http.Request) {
		reply(201, "0123456789", "Content-Length", "100")(w, r)
		http.NewResponseController(w).Flush()
		silence(w, r)
	}, reply(201, "whole"))
}

func TestAReplyThatWasHandedOverHasAllTheTimeTheCallerHas(t *testing.T) {
	for _, header := range [][]string{{"Content-Type", "text/event-stream"}, {"Content-Length", "2000000"}, nil} {
		inBubble(t, func(t *testing.T, s *site) {
			resp, err := s.client(within(time.Second)).Do(s.post(t, "x"))
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.Len(t, b, 2_000_000)
			require.NoError(t, err)
			resp.Body.Close()
			require.Len(t, s.requests(), 1)
		}, func(w http.ResponseWriter, r *http.Request) {
			reply(200, "", header...)(w, r)
			for range 20 {
				http.NewResponseController(w).Flush()
				time.Sleep(time.Minute)
				w.Write(make([]byte, 100_000))
			}
		})
	}
	t.Run("and ends with the caller's", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *site) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			resp, err := s.client().Do(s.post(t, "x").WithContext(ctx))
			require.NoError(t, err)
			begun := time.Now()
			_, err = io.ReadAll(resp.Body)
			require.Equal(t, time.Hour, time.Since(begun))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			resp.Body.Close()
		}, func(w http.ResponseWriter, r *http.Request) {
			reply(200, "", "Content-Type", "text/event-stream")(w, r)
			http.NewResponseController(w).Flush()
			silence(w, r)
		})
	})
}

// A base that ignores its context is not waited for longer than it takes, and its answer counts.
func TestAnAnswerAfterTheAttemptsTimeIsAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		n := 0
		tr := &semel.Transport{Base: base(func(r *http.Request) (*http.Response, error) {
			n++
			time.Sleep(2 * time.Minute)
			return &http.Response{StatusCode: 201, Body: http.NoBody, Request: r}, nil
		})}
		resp, err := semel.Check(tr.RoundTrip(newRequest(t, "POST", "http://api.test/", "x")))
		require.NoError(t, err)
		require.Equal(t, 201, resp.StatusCode)
		require.Equal(t, 1, n)
	})
}

func TestACallerWhoIsGoneIsNotToldThatTheAttemptTimedOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(30*time.Second, func() { cancel(gone) })
		_, err := s.client().Do(s.post(t, "x").WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, failed(t, err).Timeout())
		require.Len(t, s.requests(), 1)
	}, silence)
}
