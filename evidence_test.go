package semel_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

const jsonType = "application/json"

// A bare 409 or 422 is the API's own business unless something says that it is about the key.
func TestABareConflictIsAboutTheKeyOnlyWithEvidence(t *testing.T) {
	after := func(s step) []step { return []step{lose, s} }
	for _, c := range []struct {
		rule    string
		script  []step
		foreign bool
		verdict semel.Verdict
	}{
		{"409 alone is a business answer", []step{reply(409, "")}, false, semel.Final},
		{"409 of another conflict", []step{problem(409, "insufficient_funds")}, false, semel.Final}, // faults.md 47
		{"409 that names idempotency", []step{reply(409, `{"error":"Idempotency key in use"}`, "Content-Type", jsonType)}, false, semel.Running},
		{"409 whose text names idempotency", []step{reply(409, "idempotent request still running")}, false, semel.Running},
		{"409 with Retry-After", []step{reply(409, "", "Retry-After", "1")}, false, semel.Running},
		{"409 with the code", []step{problem(409, "in_progress")}, false, semel.Running},
		{"409 after a lost reply", after(reply(409, "")), false, semel.Running}, // dialects.md 13
		{"409 after a 503", []step{reply(503, ""), reply(409, "")}, false, semel.Running},
		{"409 after a 429 is a business answer", []step{reply(429, ""), reply(409, "")}, false, semel.Final},
		{"409 under a key from outside", []step{reply(409, "")}, true, semel.Running},
		{"409 that does not know", []step{problem(409, "outcome_unknown")}, false, semel.Unresolved},
		{"409 that does not know, with Retry-After", []step{problem(409, "outcome_unknown", "Retry-After", "1")}, false, semel.Unresolved},
		{"409 that is a replay", []step{reply(409, "", marked...)}, true, semel.Replay},
		{"422 alone is a business answer", []step{reply(422, "")}, false, semel.Final},
		{"422 of a validation", []step{problem(422, "amount_too_small")}, false, semel.Final},
		{"422 with the code", []step{problem(422, "key_reused")}, false, semel.KeyReused},
		{"422 that names idempotency", []step{reply(422, "Idempotency-Key was used with another payload")}, false, semel.KeyReused},
		{"422 with Retry-After is a business answer", []step{reply(422, "", "Retry-After", "1")}, false, semel.Final},
		{"422 after a lost reply", after(reply(422, "")), false, semel.KeyReused},
		{"422 under a key from outside", []step{reply(422, "")}, true, semel.KeyReused},
		{"400 alone", []step{reply(400, "")}, true, semel.Final},
		{"400 that names idempotency without the code", []step{reply(400, "Idempotency-Key is too long")}, false, semel.Final},
		{"400 with the code", []step{problem(400, "key_invalid")}, false, semel.BadKey},
		{"a code in what is no JSON", []step{reply(409, `{"code":"in_progress"}`, "Content-Type", "text/plain")}, false, semel.Final},
		{"a code that is nested", []step{reply(409, `{"error":{"code":"in_progress"}}`, "Content-Type", jsonType)}, false, semel.Final},
		{"412 of a precondition", []step{reply(412, "")}, true, semel.Final},
		{"410 of something that is gone", []step{reply(410, "")}, true, semel.Final},
		{"a code under the wrong status", []step{problem(404, "in_progress")}, false, semel.Final},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				var last semel.Attempt
				ctx := context.Background()
				if c.foreign {
					ctx = semel.WithKey(ctx, "k")
				}
				resp, err := s.transport(func(tr *semel.Transport) { tr.Observe = func(a semel.Attempt) { last = a } }).
					RoundTrip(s.post(t, "x").WithContext(ctx))
				require.NoError(t, err, "a response is never turned into an error")
				read(t, resp)
				require.Equal(t, c.verdict, last.Verdict)
			}, c.script...)
		})
	}
}

func TestWhatIsNotKeyedIsNeverAboutTheKey(t *testing.T) {
	for _, r := range []step{problem(409, "in_progress"), problem(422, "key_reused"), reply(409, "", marked...)} {
		inBubble(t, func(t *testing.T, s *site) {
			var last semel.Attempt
			resp, err := s.client(func(tr *semel.Transport) {
				tr.Dialect, tr.Observe = semel.None, func(a semel.Attempt) { last = a }
			}).Do(s.post(t, "x"))
			require.NoError(t, err)
			read(t, resp)
			require.Equal(t, semel.Final, last.Verdict)
			require.Equal(t, notApplied, last.Outcome)
			require.Len(t, s.requests(), 1)
		}, r)
	}
}

func TestABareConflictIsPolledThreeTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		_, err := s.client().Do(s.post(t, "x").WithContext(semel.WithKey(context.Background(), "k")))
		require.ErrorIs(t, err, semel.ErrPolls)
		require.ErrorIs(t, err, semel.Running)
		require.ErrorIs(t, err, unknown)
		require.Len(t, s.requests(), 4)
	}, reply(409, ""))
}

func TestPollsHaveTheirOwnLimitAndCostNoBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client(func(tr *semel.Transport) {
			tr.Retry.MaxAttempts, tr.Retry.MaxPolls = 1, 40
			tr.Retry.Budget = &semel.Budget{Max: 1}
		})
		begun := time.Now()
		_, err := c.Do(s.post(t, "x"))
		require.ErrorIs(t, err, semel.ErrPolls)
		require.Len(t, s.requests(), 41)
		require.GreaterOrEqual(t, time.Since(begun), 40*time.Second, "a poll waits a second at least")

		many := []step{problem(409, "in_progress")}
		for range 25 {
			many = append(many, problem(409, "in_progress"))
		}
		s.then(append(many, reply(201, ""))...) // dialects.md 5
		resp, err := c.Do(s.post(t, "x"))
		require.NoError(t, err)
		read(t, resp)

		s.then(problem(409, "in_progress"), reply(503, ""), problem(409, "in_progress"), reply(201, ""))
		resp, err = s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 2 }).Do(s.post(t, "x"))
		require.NoError(t, err, "two attempts besides the polls")
		read(t, resp)
	}, problem(409, "in_progress"))
}

// dialects.md 29: a stored failure stays the same however often it is asked for.
func TestAMarkedFailureIsFinal(t *testing.T) {
	for _, status := range []int{429, 500, 503} {
		inBubble(t, func(t *testing.T, s *site) {
			resp, err := s.transport().RoundTrip(s.post(t, "x"))
			require.NoError(t, err)
			require.Equal(t, status, resp.StatusCode)
			require.Equal(t, "stored", read(t, resp))
			require.Len(t, s.requests(), 1)
		}, reply(status, "stored", append(marked, "Retry-After", "1")...))
	}
}

// clients.md 48: the dialect reads the start of the body, and the caller the whole of it.
func TestADialectReadsTheStartOfTheBodyAndTheCallerAllOfIt(t *testing.T) {
	long := make([]byte, 100<<10)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	chunked := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(409)
		for i := 0; i < len(long); i += 10 << 10 {
			w.Write(long[i : i+10<<10])
			http.NewResponseController(w).Flush()
		}
	}
	for name, answer := range map[string]step{"framed": reply(409, string(long)), "chunked": chunked} {
		for _, maxReply := range []int64{0, -1, 1 << 10} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					var seen string
					resp, err := s.transport(func(tr *semel.Transport) {
						tr.MaxReply = maxReply
						tr.Dialect.Classify = func(_ *http.Response, prefix []byte) (semel.Verdict, string) {
							seen = string(prefix)
							return 0, ""
						}
					}).RoundTrip(s.post(t, "x"))
					require.NoError(t, err)
					require.Equal(t, string(long), read(t, resp))
					require.NotEmpty(t, seen)
					require.LessOrEqual(t, len(seen), 16<<10)
					require.Equal(t, string(long[:len(seen)]), seen)
				}, answer)
			})
		}
	}
}

func TestTheServersYesAndNoWin(t *testing.T) {
	d := semel.Dialect{ShouldRetry: "X-Should-Retry"}
	for _, c := range []struct {
		rule  string
		reply step
		sends int
	}{
		{"no to a 503", reply(503, "", "X-Should-Retry", "false"), 1},
		{"no to a running one", problem(409, "in_progress", "X-Should-Retry", "FALSE "), 1},
		{"yes to a 400", reply(400, "", "X-Should-Retry", "true"), 4},
		{"yes to a bare 409", reply(409, "", "X-Should-Retry", "True"), 4},
		{"neither to a 503", reply(503, "", "X-Should-Retry", "maybe"), 4},
		{"neither to a 400", reply(400, "", "X-Should-Retry", ""), 1},
		{"yes to a replay means nothing", reply(500, "", append(marked, "X-Should-Retry", "true")...), 1},
		{"yes to success means nothing", reply(201, "", "X-Should-Retry", "true"), 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				resp, err := s.transport(func(tr *semel.Transport) { tr.Dialect = d }).RoundTrip(s.post(t, "x"))
				require.NoError(t, err)
				read(t, resp)
				require.Len(t, s.requests(), c.sends)
			}, c.reply)
		})
	}
}
