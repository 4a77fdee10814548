package semel_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// A GET that is answered at once leaves no trace but its reply; whatever is asked of it later is told as for any other call.
func TestTheFirstAttemptOfAGETCounts(t *testing.T) {
	for name, c := range map[string]struct {
		script                   []step
		attempts, sends, arrived int // attempts and sends of the error; 0 for an answer
		status                   int // of the reply, if there is one
	}{
		"answered":                  {[]step{reply(200, "ok")}, 0, 0, 1, 200},
		"not modified":              {[]step{reply(304, "")}, 0, 0, 1, 304},
		"no such thing":             {[]step{reply(404, "no")}, 0, 0, 1, 404},
		"answered after a 503":      {[]step{reply(503, ""), reply(200, "ok")}, 0, 0, 2, 200},
		"answered after a lost one": {[]step{lose, reply(200, "ok")}, 0, 0, 2, 200},
		"503 for good":              {[]step{reply(503, "")}, 4, 4, 4, 503},
		"lost for good":             {[]step{lose}, 4, 4, 4, 0},
		"told not to repeat":        {[]step{reply(503, "", "Again", "false")}, 1, 1, 1, 503},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				resp, err := s.client(func(tr *semel.Transport) { tr.Dialect.ShouldRetry = "Again" }).Do(newRequest(t, "GET", s.URL, ""))
				if c.attempts == 0 {
					require.NoError(t, err)
					require.Equal(t, c.status, resp.StatusCode)
					read(t, resp)
				} else {
					e := failed(t, err)
					require.Equal(t, []int{c.attempts, c.sends}, []int{e.Attempts, e.Sends})
					require.Equal(t, c.status != 0, e.Response != nil)
				}
				require.Len(t, s.requests(), c.arrived)
			}, c.script...)
		})
	}
}

func TestALostGETIsMadeAsOftenAsThePolicySays(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		_, err := s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 1 }).Do(newRequest(t, "GET", s.URL, ""))
		require.ErrorIs(t, err, semel.ErrAttempts)
		require.Equal(t, 1, failed(t, err).Attempts)
		require.Len(t, s.requests(), 1)
	}, lose)
}

// What http.Client refuses after an answer is told of the operation that had it.
func TestARefusedRedirectTellsOfTheGETThatLedThere(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client()
		c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("not there") }
		_, err := c.Do(newRequest(t, "GET", s.URL, ""))
		e := failed(t, err)
		require.Equal(t, []int{1, 1}, []int{e.Attempts, e.Sends})
		require.Equal(t, semel.NotApplied, e.Outcome)
		require.ErrorContains(t, e, "not there")
	}, redirect(302, "/elsewhere"))
}

func TestARedirectedGETIsOneOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		_, err := s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 2 }).Do(newRequest(t, "GET", s.URL, ""))
		require.Equal(t, 2, failed(t, err).Attempts, "of the last hop")
		require.Len(t, s.requests(), 3)
	}, redirect(302, "/elsewhere"), reply(503, ""))
}

// A layer between http.Client and the Transport makes the same request again, at once or after it was answered.
func TestTheSameGETAgainIsTheSameOperation(t *testing.T) {
	t.Run("after its answer", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *site) {
			tr := s.transport()
			twice := base(func(r *http.Request) (*http.Response, error) {
				resp, err := tr.RoundTrip(r)
				require.NoError(t, err)
				resp.Body.Close()
				if resp, err = tr.RoundTrip(r); err == nil {
					resp.Body.Close()
				}
				return nil, errors.New("neither will do")
			})
			_, err := (&semel.Client{HTTP: &http.Client{Transport: twice}}).Do(newRequest(t, "GET", s.URL, ""))
			require.Equal(t, 2, failed(t, err).Attempts)
			require.Len(t, s.requests(), 2)
		}, reply(200, "ok"))
	})
	t.Run("while it is under way", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *site) {
			tr := s.transport()
			both := base(func(r *http.Request) (*http.Response, error) {
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						if resp, err := tr.RoundTrip(r); err == nil {
							resp.Body.Close()
						}
					})
				}
				wg.Wait()
				return nil, errors.New("neither will do")
			})
			_, err := (&semel.Client{HTTP: &http.Client{Transport: both}}).Do(newRequest(t, "GET", s.URL, ""))
			require.Equal(t, 2, failed(t, err).Attempts)
		}, reply(200, "ok"))
	})
}

// What the base does with the context of a GET on the way is no part of it, and a semel below leaves it to the one above.
func TestWhatTheBaseOfAGETDoesOnTheWay(t *testing.T) {
	t.Run("the same request through a semel below", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *site) {
			c := s.client(func(tr *semel.Transport) { tr.Base = s.transport() })
			resp, err := c.Do(newRequest(t, "GET", s.URL, ""))
			require.NoError(t, err)
			read(t, resp)
			s.then(reply(503, ""))
			_, err = c.Do(newRequest(t, "GET", s.URL, ""))
			require.Equal(t, 4, failed(t, err).Attempts)
			require.Len(t, s.requests(), 4)
		}, reply(200, "ok"))
	})
	t.Run("a token, with a key of its own", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *site) {
			own := s.client()
			c := s.client(func(tr *semel.Transport) {
				tr.Base = base(func(r *http.Request) (*http.Response, error) {
					token, err := http.NewRequestWithContext(r.Context(), "POST", s.URL+"/token", strings.NewReader("x"))
					require.NoError(t, err)
					resp, err := own.Do(token)
					require.NoError(t, err)
					read(t, resp)
					return s.base.RoundTrip(r)
				})
			})
			resp, err := c.Do(newRequest(t, "GET", s.URL, ""))
			require.NoError(t, err)
			read(t, resp)
			keys := s.keys(t)
			require.Len(t, keys, 2)
			require.NotEmpty(t, keys[0])
			require.Empty(t, keys[1])
		}, reply(200, "ok"))
	})
}

// An answer to a GET is still one after a layer above has looked into it.
func TestTheAnswerToAGETIsCheckedForWhoeverAsks(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.transport().Client()
		for range 2 {
			resp, err := c.Do(newRequest(t, "GET", s.URL, ""))
			for range 2 {
				resp, err = semel.Check(resp, err)
				require.NoError(t, err)
			}
			require.Equal(t, "ok", read(t, resp))
		}
		resp, err := c.Do(newRequest(t, "GET", s.URL, ""))
		require.NoError(t, err)
		resp.StatusCode = 202 // by a layer that means well
		resp, err = semel.Check(resp, nil)
		require.NoError(t, err)
		read(t, resp)
	}, reply(200, "ok"))
}
