package semel

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// slow reads the body in pieces with a pause before each, and answers after the last pause.
func slow(pauses ...time.Duration) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		defer req.Body.Close()
		for _, pause := range pauses {
			select {
			case <-time.After(pause):
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
			if _, err := io.ReadFull(req.Body, make([]byte, 1)); err != nil && err != io.EOF {
				return nil, err
			}
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
	}
}

func TestAnAttemptEndsWhenItMakesNoProgressForItsTimeout(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		pauses []time.Duration
		ends   time.Duration // without an answer; 0: answered
	}{
		{"bytes that keep coming start the time anew", []time.Duration{9 * s, 9 * s, 9 * s}, 0},
		{"a stall at the start", []time.Duration{20 * s}, 10 * s},
		{"a stall after progress, counted from the last byte", []time.Duration{9 * s, 4 * s, 20 * s}, 23 * s},
		{"a stall after progress twice in one period", []time.Duration{1 * s, 1 * s, 20 * s}, 12 * s},
	} {
		for _, body := range []struct {
			name string
			make func() io.Reader
		}{
			{"a long body", func() io.Reader { return bytes.NewReader(make([]byte, smallBody+1)) }},
			{"a body without GetBody", func() io.Reader { return io.MultiReader(bytes.NewReader(make([]byte, 100))) }},
		} {
			t.Run(c.name+"/"+body.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr := &Transport{Base: slow(c.pauses...), Retry: Policy{AttemptTimeout: 10 * s, MaxAttempts: 1}}
					req, err := http.NewRequest("POST", "http://host.invalid/", body.make())
					require.NoError(t, err)
					begun := time.Now()
					_, err = tr.RoundTrip(req)
					if c.ends == 0 {
						require.NoError(t, err)
						return
					}
					require.True(t, errors.Is(err, errAttemptTimeout), "%v", err)
					late := time.Since(begun) - c.ends
					require.True(t, late >= 0 && late <= 10*s/looks, "it ended after %v", time.Since(begun))
				})
			})
		}
	}
}
