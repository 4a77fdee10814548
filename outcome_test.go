package semel_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

const (
	unknown    = semel.Unknown
	notSent    = semel.NotSent
	notApplied = semel.NotApplied
	applied    = semel.Applied
	earlier    = semel.AppliedEarlier
)

var marked = []string{"Idempotent-Replayed", "true"}

// An ending is the last reply of an operation, what it means, and what the caller may believe then.
type ending struct {
	rule    string
	reply   step
	dialect semel.Dialect

	verdict semel.Verdict
	fresh   semel.Outcome // the key was minted here and nothing else was sent
	foreign semel.Outcome // the key came from outside
	doubt   semel.Outcome // a send before went unanswered
	answer  bool          // the reply is the operation's answer wherever the outcome is known
	sends   int           // with a fresh key
}

var rollback = semel.Dialect{FailuresRollBack: true}

// saying is a dialect that reads every reply from 400 on as v.
func saying(v semel.Verdict) semel.Dialect {
	return semel.Dialect{Classify: func(*http.Response, []byte) (semel.Verdict, string) { return v, "r1" }}
}

// endings is DESIGN's table of verdicts and outcomes, row by row.
var endings = []ending{
	{"2xx", reply(201, ""), semel.Dialect{}, semel.Final, applied, applied, applied, true, 1},
	{"202", reply(202, ""), semel.Dialect{}, semel.Final, applied, applied, applied, true, 1},
	{"204", reply(204, ""), semel.Dialect{}, semel.Final, applied, applied, applied, true, 1},
	{"replayed 2xx", reply(201, "", marked...), semel.Dialect{}, semel.Replay, earlier, earlier, applied, true, 1},
	{"not retained 2xx", gone(201), semel.Dialect{}, semel.AlreadyDone, earlier, earlier, earlier, false, 1},
	{"a dialect's AlreadyDone", reply(409, ""), saying(semel.AlreadyDone), semel.AlreadyDone, earlier, earlier, earlier, false, 1},
	{"303", reply(303, ""), semel.Dialect{}, semel.Final, applied, applied, applied, true, 1},
	{"307", reply(307, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"308", reply(308, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"301", reply(301, ""), semel.Dialect{}, semel.Final, unknown, unknown, unknown, true, 1},
	{"302", reply(302, ""), semel.Dialect{}, semel.Final, unknown, unknown, unknown, true, 1},
	{"304", reply(304, ""), semel.Dialect{}, semel.Final, unknown, unknown, unknown, true, 1},
	{"400", reply(400, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"401", reply(401, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1}, // faults.md 49
	{"402", reply(402, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"403", reply(403, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"404", reply(404, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"413", reply(413, ""), semel.Dialect{}, semel.Final, notApplied, unknown, unknown, true, 1},
	{"replayed 4xx", reply(402, "", marked...), semel.Dialect{}, semel.Replay, notApplied, notApplied, notApplied, true, 1}, // dialects.md 21
	{"refused", reply(409, ""), saying(semel.Refused), semel.Refused, notApplied, notApplied, notApplied, true, 1},
	{"not retained 4xx", gone(402), semel.Dialect{}, semel.Refused, notApplied, notApplied, notApplied, true, 1},
	{"429", reply(429, ""), semel.Dialect{}, semel.Transient, notApplied, unknown, unknown, false, 4},
	{"425", reply(425, ""), semel.Dialect{}, semel.Transient, notApplied, unknown, unknown, false, 4}, // faults.md 4
	{"408", reply(408, ""), semel.Dialect{}, semel.Transient, unknown, unknown, unknown, false, 4},
	{"500", reply(500, ""), semel.Dialect{}, semel.Transient, unknown, unknown, unknown, false, 4},
	{"501", reply(501, ""), semel.Dialect{}, semel.Final, unknown, unknown, unknown, false, 1},
	{"502", reply(502, ""), semel.Dialect{}, semel.Transient, unknown, unknown, unknown, false, 4},
	{"503", reply(503, ""), semel.Dialect{}, semel.Transient, unknown, unknown, unknown, false, 4},
	{"504", reply(504, ""), semel.Dialect{}, semel.Transient, unknown, unknown, unknown, false, 4}, // faults.md 22
	{"replayed 500", reply(500, "", marked...), semel.Dialect{}, semel.Replay, unknown, unknown, unknown, false, 1},
	{"not retained 500", gone(500), semel.Dialect{}, semel.Unresolved, unknown, unknown, unknown, false, 1},
	{"503 that rolls back", reply(503, ""), rollback, semel.Transient, notApplied, unknown, unknown, false, 4},
	{"replayed 500 that rolls back", reply(500, "", marked...), rollback, semel.Replay, notApplied, notApplied, notApplied, true, 1},
	{"not retained 500 that rolls back", gone(500), rollback, semel.Refused, notApplied, notApplied, notApplied, true, 1},
	{"key reused", problem(422, "key_reused"), semel.Dialect{}, semel.KeyReused, notApplied, unknown, unknown, false, 1}, // faults.md 48
	{"key missing", problem(400, "key_missing"), semel.Dialect{}, semel.BadKey, notApplied, unknown, unknown, false, 1},
	{"key invalid", problem(400, "key_invalid"), semel.Dialect{}, semel.BadKey, notApplied, unknown, unknown, false, 1},
	{"key expired", problem(412, "key_expired"), semel.Dialect{}, semel.Expired, notApplied, unknown, unknown, false, 1},
	{"the server does not know", problem(409, "outcome_unknown"), semel.Dialect{}, semel.Unresolved, unknown, unknown, unknown, false, 1},
	{"running for ever", problem(409, "in_progress"), semel.Dialect{}, semel.Running, unknown, unknown, unknown, false, 31}, // dialects.md 6, faults.md 46
	{"no reply", lose, semel.Dialect{}, 0, unknown, unknown, unknown, false, 4},                                             // faults.md 16, 32
	{"2xx cut short", cut(201), semel.Dialect{}, 0, applied, applied, applied, false, 4},                                    // faults.md 34
	{"4xx cut short", cut(404), semel.Dialect{}, 0, unknown, unknown, unknown, false, 4},
	{"5xx cut short", cut(503), semel.Dialect{}, 0, unknown, unknown, unknown, false, 4},
}

// gone is the reply of a server that did not keep the one with this status.
func gone(status int) step {
	return reply(410, `{"code":"response_not_retained","original_status":`+strconv.Itoa(status)+`}`,
		"Content-Type", "application/problem+json", "Location", "r1")
}

// foreignKeys are the ways in which a key comes from outside of this process.
var foreignKeys = map[string]func(*testing.T, *http.Request) *http.Request{
	"from the header": func(_ *testing.T, r *http.Request) *http.Request {
		r.Header.Set("Idempotency-Key", "k")
		return r
	},
	"from WithKey": func(_ *testing.T, r *http.Request) *http.Request {
		return r.WithContext(semel.WithKey(r.Context(), "k"))
	},
	"from NewOperation": func(_ *testing.T, r *http.Request) *http.Request {
		return r.WithContext(semel.NewOperation("k").Context(r.Context()))
	},
	"restored": func(t *testing.T, r *http.Request) *http.Request {
		op := new(semel.Operation)
		require.NoError(t, op.Bind(r))
		return r.WithContext(restart(t, op).Context(r.Context()))
	},
}

// restart is the operation in the next process.
func restart(t *testing.T, op *semel.Operation) *semel.Operation {
	t.Helper()
	saved, err := json.Marshal(op)
	require.NoError(t, err)
	again := new(semel.Operation)
	require.NoError(t, json.Unmarshal(saved, again))
	require.Equal(t, op.Key(), again.Key())
	return again
}

// ends sends the request and requires this end.
func ends(t *testing.T, s *site, e ending, req *http.Request, want semel.Outcome) {
	t.Helper()
	var last semel.Attempt
	c := s.client(func(tr *semel.Transport) {
		tr.Dialect = e.dialect
		tr.Observe = func(a semel.Attempt) { last = a }
	})
	c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Do(req)
	require.Equal(t, want, last.Outcome, "as observed: %v", err)
	require.Equal(t, e.verdict, last.Verdict)
	require.True(t, last.Last)
	if e.answer && want != unknown {
		require.NoError(t, err)
		read(t, resp)
		return
	}
	require.Nil(t, resp)
	told := failed(t, err)
	require.Equal(t, want, told.Outcome)
	require.Equal(t, e.verdict, told.Verdict)
	require.ErrorIs(t, err, want)
	require.Equal(t, want, told.Operation.Outcome())
	require.Equal(t, len(s.requests()), told.Sends)
	require.Equal(t, s.keys(t)[0], told.Key())
	if e.verdict == semel.AlreadyDone {
		require.Equal(t, "r1", told.ResourceID)
	}
	for _, other := range []semel.Outcome{unknown, notSent, notApplied, applied, earlier} {
		require.Equal(t, other == want, errors.Is(err, other), "an error has one outcome")
	}
}

func TestWhatTheLastReplyLetsTheCallerBelieve(t *testing.T) {
	for _, e := range endings {
		t.Run(e.rule+"/under a fresh key", func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				ends(t, s, e, s.post(t, "x"), e.fresh)
				require.Len(t, s.requests(), e.sends)
			}, e.reply)
		})
		for name, bring := range foreignKeys {
			want := e.foreign
			if name == "restored" && want == earlier && e.verdict == semel.Replay {
				want = applied // what it sees replayed may be its own
			}
			t.Run(e.rule+"/under a key "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) { ends(t, s, e, bring(t, s.post(t, "x")), want) }, e.reply)
			})
		}
		t.Run(e.rule+"/after a lost reply", func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) { ends(t, s, e, s.post(t, "x"), e.doubt) }, lose, e.reply)
		})
		t.Run(e.rule+"/after 503", func(t *testing.T) {
			want := e.doubt
			if e.dialect.FailuresRollBack {
				want = e.fresh
			}
			inBubble(t, func(t *testing.T, s *site) { ends(t, s, e, s.post(t, "x"), want) }, reply(503, ""), e.reply)
		})
		t.Run(e.rule+"/after 429", func(t *testing.T) {
			want := e.fresh
			if want == earlier && e.verdict == semel.Replay {
				want = applied // this operation had sent before
			}
			inBubble(t, func(t *testing.T, s *site) { ends(t, s, e, s.post(t, "x"), want) }, reply(429, ""), e.reply)
		})
	}
}

func TestNothingSentIsToldFromNobodyKnows(t *testing.T) {
	refused := func(r *http.Request) (*http.Response, error) { // faults.md 1
		c := &semel.Client{HTTP: (&semel.Transport{Base: dialing(syscall.ECONNREFUSED)}).Client()}
		return c.Do(r)
	}
	inBubble(t, func(t *testing.T, s *site) {
		_, err := refused(s.post(t, "x"))
		e := failed(t, err)
		require.Equal(t, notSent, e.Outcome)
		require.Equal(t, 4, e.Attempts)
		require.Zero(t, e.Sends)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorIs(t, err, semel.ErrAttempts)

		for name, bring := range foreignKeys {
			_, err := refused(bring(t, s.post(t, "x")))
			require.ErrorIs(t, err, unknown, "%s: another process may have sent it", name)
		}

		op := semel.NewOperation("") // one operation over two calls
		_, err = s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 1 }).Do(s.post(t, "x").WithContext(op.Context(context.Background())))
		require.ErrorIs(t, err, unknown)
		_, err = refused(s.post(t, "x").WithContext(op.Context(context.Background())))
		require.ErrorIs(t, err, unknown, "the first call had sent something")
		require.Equal(t, 4, failed(t, err).Attempts)
		require.Zero(t, failed(t, err).Sends)
	}, lose)
}
