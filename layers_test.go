package semel_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

func TestASemelInsideASemelIsOne(t *testing.T) {
	for name, dialect := range map[string]semel.Dialect{"keyed": {}, "in the body": {InBody: true}, "without keys": semel.None} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				var inner, outer int
				in := s.transport(func(tr *semel.Transport) {
					tr.Dialect, tr.Observe = dialect, func(semel.Attempt) { inner++ }
				})
				c := s.client(func(tr *semel.Transport) {
					tr.Dialect, tr.Base, tr.Observe = dialect, in, func(semel.Attempt) { outer++ }
				})
				resp, err := c.Do(s.post(t, "x"))
				require.NoError(t, err)
				read(t, resp)
				require.Equal(t, 2, outer)
				require.Zero(t, inner)
				require.Len(t, s.requests(), 2)
				require.Equal(t, s.keys(t)[0], s.keys(t)[1])
			}, reply(429, ""), reply(201, ""))
		})
	}
}

// Transports between the caller and semel, or between semel and the network, may clone what they pass on.
func TestWrappersMayCloneWhatTheyPassOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		type mark struct{}
		wrap := func(next http.RoundTripper) http.RoundTripper {
			return base(func(r *http.Request) (*http.Response, error) {
				return next.RoundTrip(r.Clone(context.WithValue(r.Context(), mark{}, 1)))
			})
		}
		tr := s.transport(func(tr *semel.Transport) { tr.Base = wrap(wrap(s.base)) })
		c := &semel.Client{HTTP: &http.Client{Transport: wrap(wrap(tr))}}
		op := semel.NewOperation("")
		resp, err := c.Do(s.post(t, "x").WithContext(op.Context(context.Background())))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, []string{op.Key(), op.Key()}, s.keys(t))
		require.Equal(t, applied, op.Outcome())
		resp, err = semel.Check(c.HTTP.Do(s.post(t, "y")))
		require.NoError(t, err, "the report survives wrappers, too")
		read(t, resp)
	}, lose, reply(201, ""))
}
