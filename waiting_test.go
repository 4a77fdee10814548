package semel_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// short is a schedule that adds nothing to what the server asks for.
func short() semel.Backoff { return constant(time.Nanosecond) }

// clients.md 23, 24, 25, 27 and 28: what the server asks for is waited out, never less, and never more than is borne.
func TestRetryAfterIsWaitedOutOrNotWaitedFor(t *testing.T) {
	at := func(layout string, d time.Duration) func() []string {
		return func() []string { return []string{"Retry-After", time.Now().Add(d).UTC().Format(layout)} }
	}
	is := func(header ...string) func() []string { return func() []string { return header } }
	const tooLong = time.Duration(-1)
	for _, c := range []struct {
		rule   string
		header func() []string
		want   time.Duration
	}{
		{"seconds", is("Retry-After", "2"), 2 * time.Second},
		{"none", is(), 0},
		{"zero", is("Retry-After", "0"), 0},
		{"spaces", is("Retry-After", " 2 "), 2 * time.Second},
		{"a fraction is ignored", is("Retry-After", "1.5"), 0},
		{"a list is ignored", is("Retry-After", "2,3"), 0},
		{"a negative is ignored", is("Retry-After", "-5"), 0},
		{"two lines: the first that can be read", is("Retry-After", "soon", "Retry-After", "3", "Retry-After", "9"), 3 * time.Second},
		{"IMF-fixdate", at(http.TimeFormat, 2*time.Second), 2 * time.Second},
		{"RFC 850", at("Monday, 02-Jan-06 15:04:05 GMT", 2*time.Second), 2 * time.Second},
		{"asctime", at(time.ANSIC, 2*time.Second), 2 * time.Second},
		{"a date that is past", at(http.TimeFormat, -time.Hour), 0}, // faults.md 54
		{"a date against the reply's Date", func() []string {
			return []string{"Date", "Tue, 01 Jan 2030 00:00:00 GMT", "Retry-After", "Tue, 01 Jan 2030 00:00:07 GMT"}
		}, 7 * time.Second},
		{"milliseconds", is("Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"milliseconds win", is("Retry-After", "9", "Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"Azure's milliseconds", is("X-Ms-Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"AWS's milliseconds", is("X-Amz-Retry-After", "1500"), 1500 * time.Millisecond},
		{"as long as is borne", is("Retry-After", "60"), time.Minute},
		{"longer", is("Retry-After", "61"), tooLong},
		{"an hour", is("Retry-After", "3600"), tooLong},
		{"a date in ten years", at(http.TimeFormat, 87600*time.Hour), tooLong},
		{"Unix time", func() []string { return []string{"Retry-After", strconv.FormatInt(time.Now().Unix()+7, 10)} }, tooLong},
		{"ten billion", is("Retry-After", "10000000000"), tooLong},
		{"the largest int64", is("Retry-After", "9223372036854775807"), tooLong},
		{"more than an int64", is("Retry-After", "92233720368547758070"), tooLong},
	} {
		for _, r := range []func([]string) step{
			func(h []string) step { return reply(429, "slow down", h...) },
			func(h []string) step { return reply(503, "slow down", h...) },
			func(h []string) step { return problem(409, "in_progress", h...) },
		} {
			t.Run(c.rule, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					s.then(r(c.header()), reply(201, ""))
					begun := time.Now()
					resp, err := s.transport(func(tr *semel.Transport) { tr.Retry.Backoff = short }).RoundTrip(s.post(t, "x"))
					require.NoError(t, err)
					took := time.Since(begun)
					if c.want == tooLong {
						require.Less(t, took, time.Second, "it is not waited for")
						require.GreaterOrEqual(t, resp.StatusCode, 400)
						require.NotEmpty(t, read(t, resp), "the reply is given back whole")
						_, err = semel.Check(resp, nil)
						require.ErrorIs(t, err, semel.ErrWait)
						return
					}
					read(t, resp)
					require.GreaterOrEqual(t, took, c.want)
					require.Less(t, took, c.want+1100*time.Millisecond, "a poll without a hint waits a second")
				})
			})
		}
	}
}

func TestRetryAfterLengthensAWaitAndNeverShortensIt(t *testing.T) {
	for _, c := range []struct {
		rule    string
		backoff time.Duration
		hint    string
		minWait time.Duration
		want    time.Duration
	}{
		{"the hint is longer", time.Second, "5", 0, 5 * time.Second},
		{"the schedule is longer", 10 * time.Second, "5", 0, 10 * time.Second},
		{"the dialect's is longer", time.Second, "5", 30 * time.Second, 30 * time.Second},
		{"the schedule beyond MaxWait is cut", time.Hour, "5", 0, time.Minute},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				resp, err := s.client(func(tr *semel.Transport) {
					tr.Retry.Backoff = func() semel.Backoff { return constant(c.backoff) }
					tr.Dialect.MinWait = c.minWait
				}).Do(s.post(t, "x"))
				require.NoError(t, err)
				read(t, resp)
				all := s.requests()
				require.Equal(t, c.want, all[1].at.Sub(all[0].at))
			}, reply(503, "", "Retry-After", c.hint), reply(201, ""))
		})
	}
	inBubble(t, func(t *testing.T, s *site) {
		_, err := s.client(func(tr *semel.Transport) { tr.Dialect.MinWait = 2 * time.Minute }).Do(s.post(t, "x"))
		require.ErrorIs(t, err, semel.ErrWait, "the API's shortest wait is longer than what is borne")
	}, reply(503, ""))
}

// clients.md 29: what cannot be over before the deadline is not begun.
func TestNobodySleepsPastTheDeadline(t *testing.T) {
	for name, r := range map[string]step{"429": reply(429, "busy", "Retry-After", "50"), "503": reply(503, "busy", "Retry-After", "50"), "running": problem(409, "in_progress", "Retry-After", "50")} {
		for _, timeout := range []string{"context", "client"} {
			t.Run(name+"/"+timeout, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					c := s.client()
					req := s.post(t, "x")
					if timeout == "client" {
						c.HTTP.Timeout = 40 * time.Second
					} else {
						ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
						defer cancel()
						req = req.WithContext(ctx)
					}
					begun := time.Now()
					_, err := c.Do(req)
					require.Less(t, time.Since(begun), time.Second)
					require.ErrorIs(t, err, semel.ErrWait)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.True(t, failed(t, err).Timeout())
					require.NotNil(t, failed(t, err).Response)
				}, r)
			})
		}
	}
	inBubble(t, func(t *testing.T, s *site) {
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := s.client(func(tr *semel.Transport) {
			tr.Retry.Backoff = func() semel.Backoff { return constant(50 * time.Second) }
		}).Do(s.post(t, "x").WithContext(ctx))
		require.Less(t, time.Since(begun), time.Second)
		require.ErrorIs(t, err, semel.ErrWait)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "EOF", "and the last failure")
	}, lose)
}

// clients.md 30 and 32: a cancel wakes the sleeper, who says why he was woken and what he was waiting for.
func TestACancelEndsTheWaitWithCauseAndLastFailure(t *testing.T) {
	stop := errors.New("the user has closed the window")
	for name, c := range map[string]struct {
		script step
		last   string
		bad    func(*semel.Transport)
	}{
		"after a status": {reply(503, "", "Retry-After", "30"), "503", nil},
		"while running":  {problem(409, "in_progress", "Retry-After", "30"), "409", nil},
		"after a loss":   {lose, "EOF", nil},
		"nothing sent":   {lose, "refused", func(tr *semel.Transport) { tr.Base = dialing(syscall.ECONNREFUSED) }},
		"in flight":      {silence, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				ctx, cancel := context.WithCancelCause(context.Background())
				begun := time.Now()
				time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
				_, err := s.client(func(tr *semel.Transport) {
					tr.Retry.Backoff = func() semel.Backoff { return constant(30 * time.Second) }
					if c.bad != nil {
						c.bad(tr)
					}
				}).Do(s.post(t, "x").WithContext(ctx))
				require.Equal(t, 300*time.Millisecond, time.Since(begun))
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, stop)
				require.ErrorContains(t, err, c.last)
				if name == "nothing sent" {
					require.ErrorIs(t, err, notSent)
				} else {
					require.ErrorIs(t, err, unknown) // faults.md 52
				}
			}, c.script)
		})
	}
}

// A reply that asks for a repeat may come when the caller has had enough. It is told both.
func TestACancelBesideAReplySaysWhyThatWasTheLast(t *testing.T) {
	stop := errors.New("the user has closed the window")
	for name, c := range map[string]struct {
		script step
		final  bool
	}{
		"transient": {reply(503, ""), false},
		"running":   {problem(409, "in_progress", "Retry-After", "1"), false},
		"final":     {reply(404, ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				ctx, cancel := context.WithCancelCause(context.Background())
				var last error
				resp, err := s.client(func(tr *semel.Transport) {
					tr.Dialect.Classify = func(*http.Response, []byte) (semel.Verdict, string) { cancel(stop); return 0, "" }
					tr.Observe = func(a semel.Attempt) { last = a.Stop }
				}).Do(s.post(t, "x").WithContext(ctx))
				if c.final {
					require.NoError(t, err)
					read(t, resp)
					require.NoError(t, last)
					return
				}
				for _, err := range []error{err, last} {
					require.ErrorIs(t, err, context.Canceled)
					require.ErrorIs(t, err, stop)
				}
				require.NotNil(t, failed(t, err).Response)
			}, c.script)
		})
	}
}

// clients.md 33: without a deadline the attempts end it.
func TestAttemptsEndWithoutADeadline(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		inBubble(t, func(t *testing.T, s *site) {
			_, err := s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = n }).Do(s.post(t, "x"))
			require.ErrorIs(t, err, semel.ErrAttempts)
			want := n
			if n == 0 {
				want = 4
			}
			require.Len(t, s.requests(), want)
			require.Equal(t, want, failed(t, err).Attempts)
		}, reply(503, ""))
	}
}

func TestTheScheduleMayEndIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		made := 0
		c := s.client(func(tr *semel.Transport) {
			tr.Retry.Backoff = func() semel.Backoff { made++; return &list{time.Second, 2 * time.Second, -1} }
		})
		_, err := c.Do(s.post(t, "x"))
		require.ErrorIs(t, err, semel.ErrAttempts)
		all := s.requests()
		require.Len(t, all, 3)
		require.Equal(t, time.Second, all[1].at.Sub(all[0].at))
		require.Equal(t, 2*time.Second, all[2].at.Sub(all[1].at))
		require.Equal(t, 1, made)
		s.then(reply(201, ""))
		resp, err := c.Do(s.post(t, "x"))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, 1, made, "no schedule is made before the first retry needs it")
		s.then(reply(503, ""), reply(201, ""))
		resp, err = s.client(func(tr *semel.Transport) { tr.Retry.Backoff = func() semel.Backoff { return nil } }).Do(s.post(t, "x"))
		require.NoError(t, err, "nil is the default schedule")
		read(t, resp)
	}, reply(503, ""))
}

type list []time.Duration

func (l *list) NextBackOff() time.Duration {
	d := (*l)[0]
	*l = (*l)[1:]
	return d
}
