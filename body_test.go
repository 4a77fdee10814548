package semel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// stream makes the request's body one that cannot be opened again.
func stream(req *http.Request, body io.ReadCloser, length int64) *http.Request {
	req.Body, req.ContentLength, req.GetBody = body, length, nil
	return req
}

// clients.md 7 and 9, dialects.md 8: the same bytes every time, with and without GetBody, with and without a length.
func TestEveryAttemptSendsTheSameBytes(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 40<<10) // 640 KiB
	for name, body := range map[string]string{"5 bytes": "hello", "628 bytes": strings.Repeat("x", 628), "640 KiB": long} {
		for kind, make := range map[string]func(*http.Request) (*http.Request, *source){
			"GetBody": func(r *http.Request) (*http.Request, *source) {
				src := newSource(body)
				r.Body = src
				return r, src
			},
			"a reader of known length": func(r *http.Request) (*http.Request, *source) {
				src := newSource(body)
				return stream(r, src, int64(len(body))), src
			},
			"a reader of unknown length": func(r *http.Request) (*http.Request, *source) {
				src := newSource(body)
				return stream(r, src, -1), src
			},
			"a reader in small pieces": func(r *http.Request) (*http.Request, *source) {
				src := newSource(body)
				src.Reader = &pieces{Reader: src.Reader, n: 1000}
				return stream(r, src, -1), src
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					req, src := make(s.post(t, body))
					resp, err := s.client().Do(req)
					require.NoError(t, err)
					read(t, resp)
					all := s.requests()
					require.Len(t, all, 4)
					for _, a := range all {
						require.True(t, a.body == body, "%d bytes arrived", len(a.body))
						require.Equal(t, req.ContentLength, a.ContentLength)
					}
					src.closedOnce(t)
				}, lose, reply(500, ""), reply(429, ""), reply(200, ""))
			})
		}
	}
}

// pieces reads n bytes at a time.
type pieces struct {
	io.Reader
	n int
}

func (p *pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.n)]) }

// clients.md 9, 10 and 11: what was not kept cannot be sent again, and the report says so, with the failure that came first.
func TestABodyBeyondTheLimitIsSentOnce(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		rule    string
		maxBody int64
		size    int
		sends   int
	}{
		{"1 MiB is kept", 0, mib, 4},
		{"more is not", 0, mib + 1, 1},
		{"17 MiB", 0, 17 * mib, 1},
		{"as much as MaxBody says", 10, 10, 4},
		{"and no more", 10, 11, 1},
		{"negative: nothing", -1, 1, 1},
		{"17 MiB if MaxBody says so", 20 * mib, 17 * mib, 4},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				src := &source{Reader: io.LimitReader(zeros{}, int64(c.size))}
				_, err := s.client(func(tr *semel.Transport) { tr.MaxBody = c.maxBody }).Do(stream(s.post(t, ""), src, int64(c.size)))
				require.Len(t, s.requests(), c.sends)
				for _, a := range s.requests() {
					require.Len(t, a.body, c.size)
				}
				e := failed(t, err)
				require.Equal(t, unknown, e.Outcome)
				require.Equal(t, c.sends == 1, errors.Is(err, semel.ErrBody))
				require.Equal(t, c.sends != 1, errors.Is(err, semel.ErrAttempts))
				require.Equal(t, 503, e.Response.StatusCode, "the reply is given back")
				src.closedOnce(t)
			}, reply(503, "busy"))
		})
	}
	t.Run("the first failure is not hidden", func(t *testing.T) {
		src := newSource("hello")
		tr := &semel.Transport{MaxBody: -1, Base: base(func(r *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			return nil, syscall.ECONNRESET
		})}
		_, err := tr.RoundTrip(stream(newRequest(t, "POST", "http://api.test", ""), src, 5))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.ErrorIs(t, err, semel.ErrBody)
		src.closedOnce(t)
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// clients.md 1: the server answers before it has read the body, on a real socket, under the race detector.
func TestAnEarlyReplyRacesWithNobody(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for _, kind := range []string{"GetBody", "captured"} {
		for range 5 {
			var mu sync.Mutex
			n, got := 0, []byte(nil)
			s := newSite(t)
			s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				n++
				last := n == 4
				mu.Unlock()
				if !last {
					w.WriteHeader(503)
					return
				}
				got, _ = io.ReadAll(r.Body)
			})
			req := s.post(t, string(body))
			src := &source{Reader: bytes.NewReader(body)}
			if kind == "captured" {
				stream(req, src, int64(len(body)))
			} else {
				req.Body = src
			}
			resp, err := s.client().Do(req)
			if err != nil { // the server's reset may overtake its reply
				require.ErrorIs(t, err, unknown)
				continue
			}
			read(t, resp)
			if resp.StatusCode == 200 {
				require.True(t, bytes.Equal(body, got))
			}
			src.mu.Lock()
			require.Equal(t, 1, src.closes)
			src.mu.Unlock()
		}
	}
}

// clients.md 3: once an attempt is over nothing that is left of it touches the caller's reader.
func TestAnAbandonedAttemptCannotTouchTheBody(t *testing.T) {
	src := newSource("0123456789")
	var first io.ReadCloser
	n := 0
	tr := &semel.Transport{Retry: semel.Policy{Backoff: atOnce}, Base: base(func(r *http.Request) (*http.Response, error) {
		if n++; n == 1 {
			io.ReadFull(r.Body, make([]byte, 4))
			first = r.Body // and keeps it, as a write loop may
			return nil, io.ErrUnexpectedEOF
		}
		_, err := first.Read(make([]byte, 3))
		require.Error(t, err)
		require.NoError(t, first.Close())
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(b))
		require.NoError(t, r.Body.Close())
		return &http.Response{StatusCode: 201, Body: http.NoBody}, nil
	})}
	resp, err := tr.RoundTrip(stream(newRequest(t, "POST", "http://api.test", ""), src, 10))
	require.NoError(t, err)
	read(t, resp)
	src.closedOnce(t)
	_, err = first.Read(make([]byte, 3))
	require.Error(t, err)
	src.closedOnce(t)
}

// clients.md 2: nobody seeks in the caller's reader.
func TestASeekableBodyIsNeverSeeked(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		src := &seeker{source: newSource("hello")}
		resp, err := s.client().Do(stream(s.post(t, ""), src, 5))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, "hello", s.requests()[1].body)
		require.Zero(t, src.seeks)
	}, reply(429, ""), reply(200, ""))
}

type seeker struct {
	*source
	seeks int
}

func (s *seeker) Seek(int64, int) (int64, error) { s.seeks++; return 0, nil }

// clients.md 4: a buffer may be used again as soon as the reply is there, if its body was closed.
func TestTheCallersBufferIsNotReadAfterTheReply(t *testing.T) {
	s := newSite(t, reply(503, ""), reply(200, ""))
	c := s.client()
	buf := make([]byte, 64<<10)
	for i := range 20 {
		for j := range buf {
			buf[j] = byte(i)
		}
		src := &source{Reader: bytes.NewReader(buf)}
		resp, err := c.Do(stream(s.post(t, ""), src, int64(len(buf))))
		require.NoError(t, err)
		read(t, resp)
		src.closedOnce(t)
	}
}

// clients.md 6
func TestNoOperationCarriesAnothersBytes(t *testing.T) {
	s := newSite(t)
	var mu sync.Mutex
	sums := make(map[string]map[[32]byte]bool)
	counts := make(map[string]int)
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if sums[key] == nil {
			sums[key] = make(map[[32]byte]bool)
		}
		sums[key][sha256.Sum256(b)] = true
		if counts[key]++; counts[key] < 3 {
			w.WriteHeader(500)
		}
	})
	c := s.client(func(tr *semel.Transport) { tr.Retry.Budget = &semel.Budget{Max: 1000} })
	var wg sync.WaitGroup
	for i := range 50 {
		body := strings.Repeat(string(rune('A'+i)), 4<<10)
		req := s.post(t, body).WithContext(semel.WithKey(context.Background(), "k"+body[:1]))
		if i%2 == 0 {
			stream(req, newSource(body), int64(len(body)))
		}
		wg.Go(func() {
			if resp, err := c.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	require.Len(t, sums, 50)
	for key, sum := range sums {
		body := strings.Repeat(strings.TrimPrefix(key, "k"), 4<<10)
		require.Equal(t, map[[32]byte]bool{sha256.Sum256([]byte(body)): true}, sum)
		require.Equal(t, 3, counts[key])
	}
}
