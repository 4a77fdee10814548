package semel_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// clients.md 3: a base may keep a body longer than its attempt. What is kept to be sent again is not for it.
func TestABodyOfAnEarlierAttemptBringsNothing(t *testing.T) {
	src := newSource("hello")
	var first io.ReadCloser
	tr := &semel.Transport{Retry: semel.Policy{Backoff: atOnce}, Base: base(func(r *http.Request) (*http.Response, error) {
		if first == nil {
			first = r.Body // neither read nor closed
			return nil, errors.New("lost")
		}
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
		n, err := first.Read(make([]byte, 10))
		require.Zero(t, n)
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF)
		require.NoError(t, r.Body.Close())
		return &http.Response{StatusCode: 201, Body: http.NoBody}, nil
	})}
	resp, err := tr.RoundTrip(stream(newRequest(t, "POST", "http://api.test", ""), src, 5))
	require.NoError(t, err)
	read(t, resp)
	src.closedOnce(t)
}
