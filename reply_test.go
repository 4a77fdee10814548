package semel_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// clients.md 21, faults.md 34 and 36: a reply that was cut short is no answer, and is fetched again under the same key.
func TestACutReplyIsFetchedAgainUnderTheSameKey(t *testing.T) {
	chunk := func(broken string) step {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, rw, _ := http.NewResponseController(w).Hijack()
			rw.WriteString("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n" + broken)
			rw.Flush()
			conn.Close()
		}
	}
	raw := func(head string) step {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, rw, _ := http.NewResponseController(w).Hijack()
			rw.WriteString(head)
			rw.Flush()
			conn.Close()
		}
	}
	for rule, broken := range map[string]step{
		"a length that is not reached":   cut(201),
		"a chunk that does not end":      chunk("a\r\n01234"),
		"no last chunk":                  chunk("5\r\n01234\r\n"),
		"a bad chunk":                    chunk("zz\r\n01234\r\n"),
		"no chunk at all":                chunk(""),
		"no reply at all":                raw(""),
		"half a status line":             raw("HTTP/1.1 20"),
		"half a head":                    raw("HTTP/1.1 201 Created\r\nContent-Le"),
		"garbage":                        raw("\x00\x01\x02\r\n\r\n"),
		"JSON that nothing frames":       raw("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n{\"id\": \"1"),
		"a JSON suffix":                  raw("HTTP/1.1 201 Created\r\nContent-Type: application/hal+json; charset=utf-8\r\n\r\n{\"id\""),
		"JSON over HTTP/1.0":             raw("HTTP/1.0 201 Created\r\nContent-Type: application/json\r\n\r\n[1,2"),
		"empty JSON that nothing frames": raw("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n"),
	} {
		t.Run(rule, func(t *testing.T) {
			s := newSite(t, broken, reply(201, "whole"))
			resp, err := s.client().Do(s.post(t, "x"))
			require.NoError(t, err)
			require.Equal(t, "whole", read(t, resp))
			keys := s.keys(t)
			require.Equal(t, []string{keys[0], keys[0]}, keys)
		})
	}
	t.Run("whole JSON that nothing frames is believed", func(t *testing.T) {
		s := newSite(t, raw("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n{\"id\": \"1\"}\n"))
		resp, err := s.client().Do(s.post(t, "x"))
		require.NoError(t, err)
		require.Equal(t, "{\"id\": \"1\"}\n", read(t, resp))
	})
	t.Run("without reading ahead the caller's reader is told", func(t *testing.T) {
		s := newSite(t, cut(201))
		resp, err := s.client(func(tr *semel.Transport) { tr.MaxReply = -1 }).Do(s.post(t, "x"))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, resp.Body.Close())
		require.Len(t, s.requests(), 1)
	})
}

func TestRepliesArriveWholeHoweverTheyAreFramed(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 100<<10) // 1.6 MiB, more than is read ahead
	zipped := new(bytes.Buffer)
	z := gzip.NewWriter(zipped)
	z.Write([]byte("zipped"))
	z.Close()
	chunks := func(n int, pause time.Duration) step {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := range n {
				io.WriteString(w, long[i*1000:(i+1)*1000])
				http.NewResponseController(w).Flush()
				time.Sleep(pause)
			}
		}
	}
	for _, c := range []struct {
		rule string
		step step
		want string
		took time.Duration // until the reply is handed over, at most
	}{
		{"short", reply(201, "short"), "short", 0},
		{"empty", reply(204, ""), "", 0},
		{"exactly as much as is read ahead", reply(200, long[:1<<20]), long[:1<<20], 0},
		{"one byte more", reply(200, long[:1<<20+1]), long[:1<<20+1], 0},
		{"long", reply(200, long), long, 0},
		{"chunked", chunks(100, 0), long[:100_000], 0},
		{"chunked beyond the limit", chunks(1600, 0), long[:1_600_000], 0},
		{"chunks that come slowly", chunks(10, 100*time.Millisecond), long[:10_000], 250 * time.Millisecond},
		{"chunks that come very slowly", chunks(3, time.Minute), long[:3_000], 250 * time.Millisecond},
		{"gzip", reply(200, zipped.String(), "Content-Encoding", "gzip"), "zipped", 0},
		{"an event stream", reply(200, "data: 1\n\n", "Content-Type", "text/event-stream"), "data: 1\n\n", 0},
		{"an error that is long", reply(404, long), long, 0},
	} {
		for _, maxReply := range []int64{0, -1, 1000, 10 << 20} {
			t.Run(c.rule, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					begun := time.Now()
					resp, err := s.transport(func(tr *semel.Transport) { tr.MaxReply = maxReply }).RoundTrip(s.post(t, "x"))
					require.NoError(t, err)
					require.LessOrEqual(t, time.Since(begun), c.took)
					require.True(t, c.want == read(t, resp), "byte for byte")
					n, err := resp.Body.Read(make([]byte, 1))
					require.Zero(t, n)
					require.Error(t, err)
					require.NoError(t, resp.Body.Close(), "a second time")
				}, c.step)
			})
		}
	}
}

func TestAStreamIsHandedOverAtOnce(t *testing.T) {
	for _, mime := range []string{"text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream", "application/x-ndjson", "application/jsonl"} {
		inBubble(t, func(t *testing.T, s *site) {
			begun := time.Now()
			resp, err := s.client().Do(s.post(t, "x"))
			require.NoError(t, err)
			require.Zero(t, time.Since(begun))
			lines := bufio.NewScanner(resp.Body)
			for i := range 3 {
				require.True(t, lines.Scan())
				require.Equal(t, "event", lines.Text())
				require.Equal(t, time.Duration(i)*time.Minute, time.Since(begun), "each as it comes")
			}
			require.NoError(t, resp.Body.Close(), "in the middle")
		}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mime)
			for r.Context().Err() == nil {
				io.WriteString(w, "event\n")
				http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
			}
		})
	}
}

func TestAnUpgradedConnectionIsTheCallers(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			conn, rw, _ := http.NewResponseController(w).Hijack()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			io.Copy(conn, rw)
			conn.Close()
		})
		req := newRequest(t, method, s.URL, "")
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := s.transport().RoundTrip(req)
		require.NoError(t, err)
		rw, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok, "its body is also a writer")
		_, err = io.WriteString(rw, "hello")
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(rw, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
		require.NoError(t, rw.Close())
	}
}

// clients.md 41 and 42: what is discarded is drained and closed, so that the connection is used again.
func TestDiscardedRepliesGiveTheirConnectionBack(t *testing.T) {
	for _, dialect := range []semel.Dialect{{}, semel.None} {
		var conns atomic.Int32
		s := newSite(t)
		s.base.MaxConnsPerHost = 1
		s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conns.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		tr := s.transport(func(tr *semel.Transport) { tr.Dialect, tr.Retry.Budget = dialect, &semel.Budget{Max: 1000} })
		for range 20 {
			s.then(reply(429, strings.Repeat("x", 200)), reply(429, strings.Repeat("y", 15<<10)), reply(200, "ok"))
			resp, err := tr.RoundTrip(s.post(t, "x"))
			require.NoError(t, err)
			require.Equal(t, "ok", read(t, resp))
		}
		require.EqualValues(t, 1, conns.Load())
	}
}

// clients.md 43: an endless reply is not waited for.
func TestADiscardedReplyIsNotDrainedForLong(t *testing.T) {
	endless := func(pause time.Duration) step {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(429)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return
				}
				http.NewResponseController(w).Flush()
				time.Sleep(pause)
			}
		}
	}
	for _, dialect := range []semel.Dialect{{}, semel.None} {
		for _, pause := range []time.Duration{time.Microsecond, 10 * time.Second} {
			inBubble(t, func(t *testing.T, s *site) {
				resp, err := s.client(func(tr *semel.Transport) { tr.Retry.Backoff, tr.Dialect = short, dialect }).Do(s.post(t, "x"))
				require.NoError(t, err)
				require.Equal(t, "ok", read(t, resp))
				all := s.requests()
				require.LessOrEqual(t, all[1].at.Sub(all[0].at), 310*time.Millisecond, "250 ms to read it and 50 to drain it")
				time.Sleep(time.Minute)
			}, endless(pause), reply(200, "ok"))
		}
	}
}

// clients.md 45: the last reply is the caller's, whole, from its first byte.
func TestTheLastReplyIsGivenBackWhole(t *testing.T) {
	boom := strings.Repeat("boom ", 1000)
	inBubble(t, func(t *testing.T, s *site) {
		resp, err := s.transport().RoundTrip(s.post(t, "x"))
		require.NoError(t, err)
		require.Equal(t, 500, resp.StatusCode)
		require.Equal(t, boom, read(t, resp))
		require.Len(t, s.requests(), 4)

		_, err = s.client().Do(s.post(t, "x"))
		e := failed(t, err)
		require.Equal(t, 500, e.Response.StatusCode)
		require.Equal(t, boom, read(t, e.Response))
	}, reply(500, boom))
}
