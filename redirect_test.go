package semel_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// A hop is what one request of a redirect chain looked like.
type hop struct{ method, key, body string }

func (s *site) hops(t *testing.T) (hops []hop) {
	t.Helper()
	for _, a := range s.requests() {
		hops = append(hops, hop{a.Method, a.key(t), a.body})
	}
	return hops
}

// clients.md 14 and 51: the same method is the same operation, and a GET is no operation at all.
func TestAKeyFollowsARedirectAsLongAsTheMethodDoes(t *testing.T) {
	const k, b = "k", "body"
	post, get := hop{"POST", k, b}, hop{"GET", "", ""}
	for _, c := range []struct {
		rule   string
		script []step
		want   []hop
	}{
		{"307 keeps method, key and body", []step{redirect(307, "/b"), reply(201, "")}, []hop{post, post}},
		{"308 too", []step{redirect(308, "/b"), reply(201, "")}, []hop{post, post}},
		{"307 to another host too: the key goes where the body goes", []step{redirect(307, "http://other.test/b"), reply(201, "")}, []hop{post, post}},
		{"a chain of them", []step{redirect(307, "/b"), redirect(308, "/c"), redirect(307, "http://other.test/"), reply(201, "")}, []hop{post, post, post, post}},
		{"301 turns into GET without a key", []step{redirect(301, "/b"), reply(200, "")}, []hop{post, get}},
		{"302 too", []step{redirect(302, "/b"), reply(200, "")}, []hop{post, get}},
		{"303 too", []step{redirect(303, "/b"), reply(200, "")}, []hop{post, get}},
		{"303 and then 307 stays a GET without one", []step{redirect(303, "/b"), redirect(307, "/c"), reply(200, "")}, []hop{post, get, get}},
		{"307 and then 303", []step{redirect(307, "/b"), redirect(303, "/c"), reply(200, "")}, []hop{post, post, get}},
		{"a retry after the redirect", []step{redirect(307, "/b"), lose, reply(503, ""), reply(201, "")}, []hop{post, post, post, post}},
		{"a retry before the redirect", []step{lose, redirect(307, "/b"), reply(201, "")}, []hop{post, post, post}},
		{"the GET is retried as a GET", []step{redirect(303, "/b"), lose, reply(503, ""), reply(200, "")}, []hop{post, get, get, get}},
	} {
		for way, bring := range map[string]func(*semel.Transport, *http.Request) *http.Request{
			"minted": func(tr *semel.Transport, r *http.Request) *http.Request { tr.NewKey = mint(k); return r },
			"header": func(_ *semel.Transport, r *http.Request) *http.Request { r.Header.Set("Idempotency-Key", k); return r },
			"lower": func(_ *semel.Transport, r *http.Request) *http.Request {
				r.Header["idempotency-key"] = []string{k}
				return r
			},
			"ctx": func(_ *semel.Transport, r *http.Request) *http.Request {
				return r.WithContext(semel.WithKey(context.Background(), k))
			},
			"op": func(_ *semel.Transport, r *http.Request) *http.Request {
				return r.WithContext(semel.NewOperation(k).Context(context.Background()))
			},
		} {
			t.Run(c.rule+"/"+way, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					tr := s.transport()
					req := bring(tr, s.post(t, b))
					resp, err := semel.Check(tr.Client().Do(req))
					if err == nil {
						read(t, resp)
					}
					require.Equal(t, c.want, s.hops(t))
				}, c.script...)
			})
		}
	}
}

func TestAWrapperThatReplacesTheBodyKeepsTheKeyOverARedirect(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) { // clients.md 14
		inner := s.transport()
		client := &http.Client{Transport: base(func(r *http.Request) (*http.Response, error) {
			again := r.Clone(r.Context())
			again.Body, again.ContentLength = io.NopCloser(strings.NewReader("wrapped")), 7
			again.GetBody = nil
			return inner.RoundTrip(again)
		})}
		resp, err := (&semel.Client{HTTP: client}).Do(s.post(t, "body"))
		require.NoError(t, err)
		read(t, resp)
		hops := s.hops(t)
		require.Len(t, hops, 2)
		require.Equal(t, hops[0], hops[1])
		require.Equal(t, "wrapped", hops[0].body)
	}, redirect(307, "/b"), reply(201, ""))
}

func TestOutcomeOverARedirectChain(t *testing.T) {
	for _, c := range []struct {
		rule   string
		script []step
		want   semel.Outcome
		answer bool
	}{
		{"307, then success", []step{redirect(307, "/b"), reply(201, "")}, applied, true},
		{"307, then refused", []step{redirect(307, "/b"), reply(404, "")}, notApplied, true},
		{"307, then lost", []step{redirect(307, "/b"), lose}, unknown, false},
		{"lost, then 307, then refused", []step{lose, redirect(307, "/b"), reply(404, "")}, unknown, false},
		{"307 without end", []step{redirect(307, "/b")}, notApplied, false},
		{"307 to nowhere", []step{redirect(307, "://")}, notApplied, false},
		{"303, then found", []step{redirect(303, "/b"), reply(200, "")}, applied, true},
		{"303, then lost", []step{redirect(303, "/b"), lose}, applied, false},
		{"303, then 500", []step{redirect(303, "/b"), reply(500, "")}, applied, false},
		{"303 to nowhere", []step{redirect(303, "://")}, applied, false},
		{"303 without end", []step{redirect(303, "/b")}, applied, false},
		{"302, then found", []step{redirect(302, "/b"), reply(200, "")}, unknown, false},
		{"302, then lost", []step{redirect(302, "/b"), lose}, unknown, false},
		{"303, then 429", []step{redirect(303, "/b"), reply(429, "")}, applied, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				op := semel.NewOperation("")
				for name, ctx := range map[string]context.Context{"its own": context.Background(), "brought": op.Context(context.Background())} {
					s.then(c.script...)
					resp, err := s.client().Do(s.post(t, "x").WithContext(ctx))
					if c.answer {
						require.NoError(t, err, name)
						read(t, resp)
						continue
					}
					e := failed(t, err)
					require.Equal(t, c.want, e.Outcome, "%s: %v", name, err)
					require.Equal(t, s.keys(t)[0], e.Key(), "an error on a later hop reports the operation that led there")
				}
				require.Equal(t, c.want, op.Outcome())
			}, c.script...)
		})
	}
}

// How an earlier call of the operation ended says nothing of this one.
func TestAFailedRedirectDoesNotBringBackAnOldFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		op := semel.NewOperation("")
		ctx := op.Context(context.Background())
		dead := &semel.Client{HTTP: (&semel.Transport{Base: dialing(io.ErrClosedPipe)}).Client()}
		_, err := dead.Do(s.post(t, "x").WithContext(ctx))
		require.ErrorIs(t, err, notSent)
		_, err = s.client().Do(s.post(t, "x").WithContext(ctx))
		require.ErrorIs(t, err, applied)
		require.NotErrorIs(t, err, io.ErrClosedPipe)
	}, redirect(303, "://"))
}

func TestARedirectThatIsNotFollowedIsTheReply(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		body := newSource("x")
		req := newRequest(t, "POST", s.URL, "") // without GetBody net/http cannot follow a 307
		req.Body, req.ContentLength = body, 1
		resp, err := s.client().Do(req)
		require.NoError(t, err)
		require.Equal(t, 307, resp.StatusCode)
		read(t, resp)
		body.closedOnce(t)
	}, redirect(307, "/b"))
}

func TestTheClientsTimeoutBoundsTheWholeChain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client()
		c.HTTP.Timeout = 10 * time.Second
		begun := time.Now()
		_, err := c.Do(s.post(t, "x"))
		require.ErrorIs(t, err, applied, "the 303 had said so")
		require.True(t, failed(t, err).Timeout())
		require.Equal(t, 10*time.Second, time.Since(begun))
	}, redirect(303, "/b"), silence)
}
