package semeltest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// An API of its own kind: another header, other statuses, bodies of its own, and no mark.
var foreign = semeltest.Rules{
	Header: "Request-Token", Replayed: "X-Cached: yes",
	Status: map[string]int{"key_reused": 400, "key_missing": 403, "in_progress": 429},
	Body: func(code string) (string, string) {
		return "application/json", fmt.Sprintf(`{"error":{"type":%q}}`, code)
	},
}

var foreignDialect = semel.Dialect{
	Header:   "Request-Token",
	Replayed: func(r *http.Response) bool { return r.Header.Get("X-Cached") == "yes" },
	Classify: func(r *http.Response, body []byte) (semel.Verdict, string) {
		switch {
		case strings.Contains(string(body), "in_progress"):
			return semel.Running, ""
		case strings.Contains(string(body), "key_reused"):
			return semel.KeyReused, ""
		case strings.Contains(string(body), "outcome_unknown"):
			return semel.Unresolved, ""
		}
		return 0, ""
	},
}

func TestClientsOfOtherAPIs(t *testing.T) {
	semeltest.TestClient(t, semeltest.Client{Rules: foreign, Perform: func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
		return performWith(ctx, &semel.Transport{Base: base, Dialect: foreignDialect})
	}})
}

// A translation is a server that spells the guard's replies in its own way.
func translation(guard http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := httptest.NewRecorder()
		guard.ServeHTTP(kept, r)
		status := kept.Code
		for code, own := range foreign.Status {
			if strings.Contains(kept.Body.String(), `"code":"`+code+`"`) {
				status = own
			}
		}
		for name, values := range kept.Header() {
			w.Header()[name] = values
		}
		if kept.Header().Get("Idempotent-Replayed") != "" {
			w.Header().Del("Idempotent-Replayed")
			w.Header().Set("X-Cached", "yes")
		}
		w.WriteHeader(status)
		_, _ = w.Write(kept.Body.Bytes())
	})
}

func TestServersOfOtherAPIs(t *testing.T) {
	translated := func(f *flawed) {
		f.guard.Header = foreign.Header
		f.handler = translation(&f.guard)
	}
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server {
		s := newFlawed(translated)(t)
		s.Rules = foreign
		return s
	})
	t.Run("judged by the rules of another API it fails", func(t *testing.T) {
		for _, name := range []string{"answer/a repeat gets the same", "key/another request is refused"} {
			require.NotNil(t, semeltest.ServerCase(t, name, func(t *testing.T) semeltest.Server {
				s := newFlawed(translated)(t)
				s.Rules = semeltest.Rules{Header: foreign.Header}
				return s
			}), name)
		}
	})
}

func TestQuotedKeys(t *testing.T) {
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server {
		s := guarded(testserver.Keyed)
		s.Rules.Quoted = true
		return s
	})
}

// Defects of client code that no transport has.
func TestEachCaseCatchesItsBadClient(t *testing.T) {
	for _, bad := range []struct {
		defect  string
		caught  string
		perform func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief
	}{
		{"one key for all operations", "calm/each operation has its own key", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			return performWith(semel.WithKey(ctx, "payment-1"), &semel.Transport{Base: base})
		}},
		{"no key", "calm/each operation has its own key", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			return performWith(ctx, base)
		}},
		{"an optimist", "back/every reply is lost", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			b := performWith(ctx, &semel.Transport{Base: base})
			b.Outcome = semel.Applied
			return b
		}},
		{"a pessimist", "back/every reply is lost", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			b := performWith(ctx, &semel.Transport{Base: base})
			if b.Outcome == semel.Unknown {
				b.Outcome = semel.NotSent
			}
			return b
		}},
		{"an optimist whose dial is refused", "out/a dial that is refused for ever ends", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			performWith(ctx, &semel.Transport{Base: base})
			return semeltest.Belief{Outcome: semel.Applied}
		}},
		{"an answer made up", "calm/one operation, one effect", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			b := performWith(ctx, &semel.Transport{Base: base})
			b.Answer = []byte("{}")
			return b
		}},
		{"a panic", "calm/one operation, one effect", func(context.Context, http.RoundTripper, int) semeltest.Belief { panic("here") }},
		{"no end", "calm/one operation, one effect", func(context.Context, http.RoundTripper, int) semeltest.Belief { select {} }},
		{"a goroutine left behind", "calm/one operation, one effect", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			go func() { select {} }()
			return performWith(ctx, &semel.Transport{Base: base})
		}},
		{"a deadline ignored", "caller/cancels while it is under way", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			return performWith(context.WithoutCancel(ctx), &semel.Transport{Base: base})
		}},
		{"a cancelled operation called failed", "caller/cancels while it waits", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			b := performWith(ctx, &semel.Transport{Base: base})
			if ctx.Err() != nil {
				b.Outcome = semel.NotApplied
			}
			return b
		}},
		{"all operations mixed up", "caller/many at once, everything breaks", func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
			return performWith(semel.WithKey(ctx, fmt.Sprint("payment-", n/2)), &semel.Transport{Base: base})
		}},
	} {
		t.Run(bad.defect, func(t *testing.T) {
			require.NotNil(t, semeltest.ClientCase(t, bad.caught, semeltest.Client{Perform: bad.perform}), "the case %q finds nothing", bad.caught)
		})
	}
}
