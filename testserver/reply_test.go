package testserver_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// serve puts the guard behind a real server and returns how to post to it.
func serve(t testing.TB, h http.Handler, http2 bool) func(key string) reply {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2, s.Config.ErrorLog = http2, log.New(io.Discard, "", 0)
	if http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	client := s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Transport.(*http.Transport).DisableCompression = true
	return func(key string) reply {
		req, err := http.NewRequest(http.MethodPost, s.URL+"/", strings.NewReader("body"))
		require.NoError(t, err)
		req.GetBody = nil
		req.Header.Set("Idempotency-Key", key)
		return read(client.Do(req))
	}
}

func overBoth(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Run("HTTP/1.1", func(t *testing.T) { test(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { test(t, true) })
}

// What was answered is answered again: status, fields in their order, and bytes.
func TestAReplayIsExact(t *testing.T) {
	var gzipped bytes.Buffer
	z := gzip.NewWriter(&gzipped)
	_, _ = z.Write([]byte("text"))
	require.NoError(t, z.Close())
	for name, h := range map[string]http.HandlerFunc{
		"nothing at all":    func(http.ResponseWriter, *http.Request) {},
		"a status alone":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) },
		"a body alone":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"binary":            func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0, 255, '\r', '\n', 0}) },
		"no content":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"not modified":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) },
		"an unusual status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) },
		"a redirect":        func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusSeeOther) },
		"an error":          func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 422) },
		"several writes": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			_, _ = io.WriteString(w, "b")
		},
		"a copied body": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("copied")) },
		"a type of its own": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			_, _ = io.WriteString(w, "<html>")
		},
		"no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>")
		},
		"a declared length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ok")
		},
		"1xx before":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(201) },
		"two statuses":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(500) },
		"a field set late": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.Header().Set("X-Late", "1") },
		"gzip by the handler, B29": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped.Bytes())
		},
		"many values, B27": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Many"] = []string{"2", "1", "a,b", "2"}
			w.Header().Set("Content-Disposition", `attachment; filename="a,b.txt"`)
			w.Header().Set("Location", "/thing/1")
			w.Header().Set("Etag", `"v1"`)
			w.WriteHeader(201)
		},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, http2 bool) {
				e := &effect{do: h}
				plain, post := serve(t, h, http2), serve(t, guard(e), http2)
				bare, first, again := plain("k"), post("k"), post("k")
				require.EqualValues(t, 1, e.runs.Load())
				require.NoError(t, again.err)
				require.True(t, again.replayed())
				again.header.Del("Idempotent-Replayed")
				for _, r := range []reply{bare, first, again} {
					r.header.Del("Date")
				}
				require.Equal(t, first, again)
				if first.status != 304 {
					require.Equal(t, bare, first, "the guard changes nothing")
				}
			})
		})
	}
}

// servers.md B28: what belongs to one caller, message or connection is sent once.
func TestWhatIsNeverReplayed(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for _, name := range []string{"Authorization", "WWW-Authenticate", "Authentication-Info", "Proxy-Authenticate", "Server", "Alt-Svc", "Keep-Alive", "X-Hop"} {
			h.Set(name, "first")
		}
		h.Set("Connection", "x-hop")
		h.Add("Set-Cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
		h.Add("Set-Cookie", "b=2")
		h.Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
		h.Set("Idempotent-Replayed", "true") // of the handler's own upstream, and not for us to say
		h.Set("X-Kept", "yes")
		w.WriteHeader(201)
	}}
	post := serve(t, guard(e), false)
	first, again := post("k"), post("k")
	require.Equal(t, []string{"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2"}, first.header["Set-Cookie"])
	require.False(t, first.replayed())
	require.True(t, again.replayed())
	require.Equal(t, "yes", again.header.Get("X-Kept"))
	for name, values := range again.header {
		require.NotContains(t, values, "first", name)
	}
	require.NotContains(t, again.header, "Set-Cookie")
	require.NotEqual(t, first.header.Get("Date"), again.header.Get("Date"))
}

// What middleware around the guard sets belongs to each reply anew; what the handler makes of it is its own.
func TestFieldsOfMiddlewareAreNotTheAnswers(t *testing.T) {
	n := 0
	e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
		require.Equal(t, "1", w.Header().Get("X-Request-Id"))
		w.Header().Set("X-Changed", "by the handler")
		w.Header().Add("Vary", "Origin")
		w.Header().Del("X-Removed")
		w.WriteHeader(201)
	}}
	g := guard(e)
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("X-Request-Id", fmt.Sprint(n))
		w.Header().Set("X-Changed", "by nobody")
		w.Header().Set("X-Removed", "")
		w.Header().Set("Vary", "Accept")
		g.ServeHTTP(w, r)
	})
	first, again := do(outer, request("k", "")), do(outer, request("k", ""))
	require.Equal(t, "1", first.header.Get("X-Request-Id"))
	require.Equal(t, "2", again.header.Get("X-Request-Id"))
	require.NotContains(t, first.header, "X-Removed")
	for _, r := range []reply{first, again} {
		require.Equal(t, []string{"by the handler"}, r.header["X-Changed"])
		require.Equal(t, []string{"Accept", "Origin"}, r.header["Vary"])
	}
}

// servers.md B16, B17, B18: the reply is delivered, and the key remembers that it was.
func TestWhatLeavesATombstone(t *testing.T) {
	big := strings.Repeat("x", 200)
	flush := func(w http.ResponseWriter) { require.NoError(t, http.NewResponseController(w).Flush()) }
	for name, tt := range map[string]struct {
		do     func(w http.ResponseWriter)
		body   string
		status int
	}{
		"one byte too much":     {func(w http.ResponseWriter) { _, _ = io.WriteString(w, big[:101]) }, big[:101], 201},
		"too much, in pieces":   {func(w http.ResponseWriter) { _, _ = io.WriteString(w, big[:60]); _, _ = io.WriteString(w, big[60:]) }, big, 201},
		"too much, with length": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "200"); _, _ = io.WriteString(w, big) }, big, 201},
		"flushed at once":       {func(w http.ResponseWriter) { flush(w); _, _ = io.WriteString(w, "x") }, "x", 201},
		"flushed at the end":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x"); w.(http.Flusher).Flush() }, "x", 201},
		"flushed, an error":     {func(w http.ResponseWriter) { w.WriteHeader(500); flush(w) }, "", 500},
		"copied":                {func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader(big)) }, big, 201},
	} {
		for kindName, kind := range kinds {
			t.Run(name+", "+kindName, func(t *testing.T) {
				overBoth(t, func(t *testing.T, http2 bool) {
					e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
						start(r)
						w.Header().Set("Location", "/thing/1")
						w.Header().Set("Set-Cookie", "a=1")
						if tt.status == 201 {
							tt.do(created{w})
							return
						}
						tt.do(w)
					}}
					g := guard(e)
					g.MaxReply, g.Effect = 100, kind
					post := serve(t, g, http2)
					first := post("k")
					require.NoError(t, first.err)
					require.Equal(t, tt.status, first.status)
					require.Equal(t, tt.body, first.body)
					require.Equal(t, "/thing/1", first.header.Get("Location"))
					if tt.status == 500 && kind == testserver.Keyed {
						return // runs again, see TestWhatIsRunAgain
					}
					again := post("k")
					again.is(t, 410, "response_not_retained")
					require.Equal(t, "/thing/1", again.header.Get("Location"))
					require.Contains(t, again.body, fmt.Sprintf(`"original_status":%d`, tt.status))
					require.NotContains(t, again.header, "Set-Cookie")
					require.EqualValues(t, 1, e.runs.Load())
				})
			})
		}
	}
}

// created makes 201 the status of the first write or flush.
type created struct{ http.ResponseWriter }

func (w created) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w created) Write(p []byte) (int, error) {
	w.WriteHeader(201)
	return w.ResponseWriter.Write(p)
}

func (w created) Flush() {
	w.WriteHeader(201)
	w.ResponseWriter.(http.Flusher).Flush()
}

func TestAReplyWithinTheLimitIsKept(t *testing.T) {
	g := guard(&effect{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 100)) }})
	g.MaxReply = 100
	first, again := do(g, request("k", "")), do(g, request("k", ""))
	require.Equal(t, "100", first.header.Get("Content-Length"))
	require.True(t, again.replayed())
	require.Equal(t, first.body, again.body)
}

func TestTrailersReachTheFirstClient(t *testing.T) {
	for name, prefix := range map[string]string{"declared": "", "by prefix": http.TrailerPrefix} {
		for _, flush := range []bool{false, true} {
			t.Run(fmt.Sprint(name, flush), func(t *testing.T) {
				e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
					if prefix == "" {
						w.Header().Set("Trailer", "X-Sum")
					}
					_, _ = io.WriteString(w, "body")
					if flush {
						w.(http.Flusher).Flush()
					}
					w.Header().Set(prefix+"X-Sum", "42")
				}}
				s := httptest.NewServer(guard(e))
				defer s.Close()
				req, err := http.NewRequest("POST", s.URL, nil)
				require.NoError(t, err)
				req.Header.Set("Idempotency-Key", "k")
				resp, err := s.Client().Do(req)
				require.NoError(t, err)
				require.Equal(t, "body", read(resp, nil).body)
				require.Equal(t, "42", resp.Trailer.Get("X-Sum"))
				read(s.Client().Do(req)).is(t, 410, "response_not_retained")
				require.EqualValues(t, 1, e.runs.Load())
			})
		}
	}
}

func TestAHijackedConnection(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
		_, err = io.WriteString(w, "too late")
		require.ErrorIs(t, err, http.ErrHijacked)
		require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrHijacked)
		_, _ = buf.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 3\r\nConnection: close\r\n\r\nraw")
		_ = buf.Flush()
		_ = conn.Close()
	}}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			e.runs.Store(0)
			g := guard(e)
			g.Effect = kind
			post := serve(t, g, false)
			require.Equal(t, "raw", post("k").body)
			require.Eventually(t, func() bool { return state(t, g, "k") == testserver.Tombstone }, 10*time.Second, time.Millisecond)
			post("k").is(t, 410, "response_not_retained")
			require.EqualValues(t, 1, e.runs.Load())
		})
	}
	post := serve(t, guard(&effect{do: func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		require.Error(t, err)
		w.WriteHeader(501)
	}}), true)
	require.Equal(t, 501, post("k").status, "HTTP/2 has no connection to give away")
	require.True(t, post("k").replayed())
}

// A handler that promised more than it wrote has not answered: its client must not take the part for the whole.
func TestAHandlerThatBreaksItsOwnPromise(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, "five.")
	}}
	post := serve(t, guard(e), false)
	require.Error(t, post("k").err)
	post("k").is(t, 410, "response_not_retained")
	require.EqualValues(t, 1, e.runs.Load())

	e.do = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		n, err := io.WriteString(w, "three")
		require.Zero(t, n)
		require.ErrorIs(t, err, http.ErrContentLength)
		_, _ = io.WriteString(w, "ok")
	}
	require.Equal(t, "ok", post("more").body)

	e.do = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(204)
		_, err := io.WriteString(w, "body")
		require.ErrorIs(t, err, http.ErrBodyNotAllowed)
	}
	require.Equal(t, 204, post("bodiless").status)

	e.do = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }
	require.Error(t, post("status").err)
	post("status").is(t, 409, "outcome_unknown")
}

func TestTheResponseControllerReachesTheConnection(t *testing.T) {
	post := serve(t, guard(&effect{do: func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
		require.NoError(t, c.EnableFullDuplex())
	}}), false)
	require.Equal(t, 200, post("k").status)
}

// Nothing that leaves early may let the operation run again, or come from an owner that has lost it.
func TestAReplyThatLeavesEarlyMarksTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.(http.Flusher).Flush()
			panic("after the client was told")
		}}
		g := guard(e)
		g.Effect = testserver.Marked
		require.Error(t, do(g, request("k", "")).err)
		do(g, request("k", "")).is(t, 409, "outcome_unknown")
		require.EqualValues(t, 1, e.runs.Load())
	})
}

func TestALostOwnersReplyDoesNotLeaveEarly(t *testing.T) {
	for name, kind := range map[string]testserver.Effect{"marked": testserver.Marked, "keyed": testserver.Keyed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var flushed error
				e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					w.WriteHeader(201)
					flushed = http.NewResponseController(w).Flush()
				}}
				store := flaky()
				store.fail(store.before, "Renew", 1<<30)
				g := guard(e)
				g.Store, g.Effect = store, kind
				require.Error(t, do(g, request("k", "")).err)
				require.ErrorIs(t, flushed, testserver.ErrLeaseLost)
			})
		})
	}
}
