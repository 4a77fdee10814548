package semel_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

func mint(key string) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return key, nil }
}

// clients.md 51 and dialects.md 3: a header that the caller set wins over the context, which wins over NewKey.
func TestTheKeyComesFromTheFirstPlaceThatHasOne(t *testing.T) {
	for _, c := range []struct {
		rule   string
		header map[string][]string
		ctx    string
		op     func() *semel.Operation
		newKey func(*http.Request) (string, error)
		want   string // "": a UUID
	}{
		{rule: "nobody brings one: a fresh UUID"},
		{rule: "NewKey makes it", newKey: mint("new"), want: "^new$"},
		{rule: "the context wins over NewKey", ctx: "ctx", newKey: mint("new"), want: "^ctx$"},
		{rule: "an operation wins over NewKey", op: operation("op"), newKey: mint("new"), want: "^op$"},
		{rule: "an operation without a key gets one of NewKey's", op: func() *semel.Operation { return new(semel.Operation) }, newKey: mint("new"), want: "^new$"},
		{rule: "the header wins over the context", header: h("Idempotency-Key", "head"), ctx: "ctx", newKey: mint("new"), want: "^head$"},
		{rule: "the header wins over an operation", header: h("Idempotency-Key", "head"), op: operation("op"), want: "^head$"},
		{rule: "in lower case", header: h("idempotency-key", "head"), ctx: "ctx", want: "^head$"},
		{rule: "in upper case", header: h("IDEMPOTENCY-KEY", "head"), newKey: mint("new"), want: "^head$"},
		{rule: "in two casings with one value", header: h("idempotency-key", "head", "Idempotency-Key", "head"), want: "^head$"},
		{rule: "twice with one value", header: map[string][]string{"Idempotency-Key": {"head", "head"}}, want: "^head$"},
		{rule: "with spaces around it", header: h("Idempotency-Key", "  head\t"), want: "^head$"},
		{rule: "a header without lines brings none", header: map[string][]string{"Idempotency-Key": {}}, ctx: "ctx", want: "^ctx$"},
	} {
		for _, body := range []string{"body", ""} {
			t.Run(c.rule+"/"+body, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					req := s.post(t, body)
					for k, v := range c.header {
						req.Header[k] = v
					}
					if c.ctx != "" {
						req = req.WithContext(semel.WithKey(req.Context(), c.ctx))
					}
					if c.op != nil {
						req = req.WithContext(c.op().Context(req.Context()))
					}
					before := req.Header.Clone()
					resp, err := s.client(func(tr *semel.Transport) { tr.NewKey = c.newKey }).Do(req)
					require.NoError(t, err)
					read(t, resp)
					keys := s.keys(t)
					require.Len(t, keys, 3)
					require.Regexp(t, or(c.want, "^[0-9a-f]{8}-[0-9a-f]{4}-4"), keys[0])
					require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys, "one key on every send")
					require.Equal(t, before, req.Header, "the caller's request is never modified")
				}, lose, reply(503, ""), reply(201, "done"))
			})
		}
	}
}

func operation(key string) func() *semel.Operation {
	return func() *semel.Operation { return semel.NewOperation(key) }
}

// h is a header as it stands in the map, in whatever casing.
func h(namesAndValues ...string) map[string][]string {
	m := make(map[string][]string)
	for i := 0; i < len(namesAndValues); i += 2 {
		m[namesAndValues[i]] = append(m[namesAndValues[i]], namesAndValues[i+1])
	}
	return m
}

func TestAKeyThatCannotBeSentIsRefusedBeforeAnythingIs(t *testing.T) {
	quoted := semel.Dialect{Quoted: true}
	for _, c := range []struct {
		rule    string
		header  map[string][]string
		ctx     string
		dialect semel.Dialect
		newKey  func(*http.Request) (string, error)
		says    string
	}{
		{rule: "two different keys", header: map[string][]string{"Idempotency-Key": {"a", "b"}}, says: "different values"},
		{rule: "two casings, two keys", header: h("Idempotency-Key", "a", "idempotency-key", "b"), says: "different values"},
		{rule: "an empty header", header: h("Idempotency-Key", ""), says: "empty"},
		{rule: "too long, from the header", header: h("Idempotency-Key", strings.Repeat("k", 256)), says: "256"},
		{rule: "too long, from the context", ctx: strings.Repeat("k", 256), says: "256"},
		{rule: "too long, from NewKey", newKey: mint(strings.Repeat("k", 256)), says: "256"},
		{rule: "a line break", ctx: "a\r\nX-Evil: 1", says: `'\r'`},
		{rule: "not ASCII", ctx: "schlüssel", says: "byte 4"},
		{rule: "a space", ctx: "a b", says: "' '"},
		{rule: "a quote where keys are quoted", ctx: `a"b`, dialect: quoted, says: `'"'`},
		{rule: "an open quote in the header", header: h("Idempotency-Key", `"abc`), dialect: quoted, says: "does not end"},
		{rule: "NewKey brings none", newKey: mint(""), says: "NewKey"},
		{rule: "the dialect's own rule", ctx: "abc", dialect: semel.Dialect{Valid: func(string) error { return errors.New("no vowels") }}, says: "no vowels"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				body := newSource("body")
				req := newRequest(t, "POST", s.URL, "")
				req.Body, req.ContentLength = body, 4
				for k, v := range c.header {
					req.Header[k] = v
				}
				if c.ctx != "" {
					req = req.WithContext(semel.WithKey(req.Context(), c.ctx))
				}
				resp, err := s.client(func(tr *semel.Transport) { tr.Dialect, tr.NewKey = c.dialect, c.newKey }).Do(req)
				require.Nil(t, resp)
				e := failed(t, err)
				require.ErrorContains(t, err, c.says)
				require.Zero(t, e.Attempts)
				if c.newKey == nil || c.says != "NewKey" {
					require.ErrorIs(t, err, semel.BadKey)
				}
				require.Empty(t, s.requests(), "nothing is sent")
				body.closedOnce(t) // clients.md 12: a body is closed when nothing is sent, too
			}, reply(201, ""))
		})
	}
}

func TestAFailingKeyMakerIsTheErrorsCause(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		down := errors.New("the key store is down") // clients.md 12
		_, err := s.client(func(tr *semel.Transport) {
			tr.NewKey = func(*http.Request) (string, error) { return "", down }
		}).Do(s.post(t, "x"))
		require.ErrorIs(t, err, down)
		require.ErrorIs(t, err, semel.NotSent)
		require.Empty(t, s.requests())
	}, reply(201, ""))
}

func TestOnlyTheDialectsMethodsAreKeyed(t *testing.T) {
	for _, c := range []struct {
		rule    string
		dialect semel.Dialect
		method  string
		keyed   bool
	}{
		{"POST", semel.Dialect{}, "POST", true},
		{"PATCH", semel.Dialect{}, "PATCH", true},
		{"not PUT", semel.Dialect{}, "PUT", false},
		{"not DELETE", semel.Dialect{}, "DELETE", false},
		{"not GET", semel.Dialect{}, "GET", false},
		{"a dialect with PUT", semel.Dialect{Methods: []string{"PUT"}}, "PUT", true},
		{"a dialect with PUT alone", semel.Dialect{Methods: []string{"PUT"}}, "POST", false},
		{"no POST without keys", semel.None, "POST", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				resp, err := s.client(func(tr *semel.Transport) { tr.Dialect = c.dialect }).Do(newRequest(t, c.method, s.URL, ""))
				require.NoError(t, err)
				read(t, resp)
				require.Equal(t, c.keyed, s.requests()[0].key(t) != "")
			}, reply(200, ""))
		})
	}
}

// clients.md 50: a new key for a new operation, and only then.
func TestTwoOperationsHaveTwoKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client()
		for range 2 {
			resp, err := c.Do(s.post(t, "same"))
			require.NoError(t, err)
			read(t, resp)
		}
		keys := s.keys(t)
		require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys[:3])
		require.NotEqual(t, keys[0], keys[3])
	}, reply(429, ""), reply(502, ""), reply(200, ""), reply(200, ""))
}

func TestTheKeyIsSpelledAsTheDialectSays(t *testing.T) {
	for _, c := range []struct {
		rule    string
		dialect semel.Dialect
		header  map[string][]string
		name    string
		want    string
	}{
		{"quoted", semel.Dialect{Quoted: true}, nil, "Idempotency-Key", `"k"`},
		{"quoted, from a bare header", semel.Dialect{Quoted: true}, h("Idempotency-Key", "head"), "Idempotency-Key", `"head"`},
		{"quoted, from a quoted header", semel.Dialect{Quoted: true}, h("idempotency-key", `"head"`), "Idempotency-Key", `"head"`},
		{"bare, quotes are the caller's", semel.Dialect{}, h("Idempotency-Key", `"head"`), "Idempotency-Key", `"head"`},
		{"another header", semel.Dialect{Header: "PayPal-Request-Id"}, nil, "Paypal-Request-Id", "k"},
		{"another header in any casing", semel.Dialect{Header: "paypal-request-id"}, h("PAYPAL-REQUEST-ID", "head"), "Paypal-Request-Id", "head"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				req := s.post(t, "x")
				for k, v := range c.header {
					req.Header[k] = v
				}
				resp, err := s.client(func(tr *semel.Transport) { tr.Dialect, tr.NewKey = c.dialect, mint("k") }).Do(req)
				require.NoError(t, err)
				read(t, resp)
				require.Equal(t, []string{c.want}, s.requests()[0].Header.Values(c.name))
			}, reply(200, ""))
		})
	}
}

func TestAKeyInTheBodyStaysThere(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client(func(tr *semel.Transport) { tr.Dialect.InBody = true })
		op := semel.NewOperation("k")
		resp, err := c.Do(s.post(t, `{"key":"k"}`).WithContext(op.Context(context.Background())))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, []string{"", ""}, s.keys(t))
		require.Equal(t, semel.Applied, op.Outcome())

		s.then(lose, reply(200, ""))
		_, err = c.Do(s.post(t, `{"key":"k"}`))
		require.ErrorIs(t, err, semel.Unknown, "nobody said that there is a key, so it is not repeated")
		require.Len(t, s.requests(), 1)
	}, lose, reply(200, ""))
}
