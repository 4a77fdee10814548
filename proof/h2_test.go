package proof

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/semel-go/semel"
)

// A frameServer speaks HTTP/2 without TLS, frame by frame, as a script says.
type frameServer struct {
	t      *testing.T
	url    string
	answer func(n int, s *stream) // n from 1, over all connections

	mu   sync.Mutex
	seen []framed
}

// A framed is a request that was received whole.
type framed struct{ key, body string }

// A stream is a request that waits for its answer.
type stream struct {
	framer *http2.Framer
	conn   net.Conn
	id     uint32
}

func startFrames(t *testing.T, answer func(n int, s *stream)) *frameServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &frameServer{t: t, url: "http://" + l.Addr().String() + "/", answer: answer}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return f
}

func (f *frameServer) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(c, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if framer.WriteSettings() != nil {
		return
	}
	open := make(map[uint32]*framed)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		var ended bool
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = framer.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			a := new(framed)
			for _, h := range frame.Fields {
				if h.Name == "idempotency-key" {
					a.key = h.Value
				}
			}
			open[frame.StreamID], ended = a, frame.StreamEnded()
		case *http2.DataFrame:
			open[frame.StreamID].body += string(frame.Data())
			ended = frame.StreamEnded()
		}
		if ended {
			id := frame.Header().StreamID
			f.mu.Lock()
			f.seen = append(f.seen, *open[id])
			n := len(f.seen)
			f.mu.Unlock()
			f.answer(n, &stream{framer, c, id})
		}
	}
}

func (f *frameServer) arrivals() []framed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]framed(nil), f.seen...)
}

// reply answers with a body, of which only the first bytes are sent if cut is not negative.
func (s *stream) reply(body string, cut int) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	_ = enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = enc.WriteField(hpack.HeaderField{Name: "content-type", Value: "text/plain"})
	_ = s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true})
	if cut < 0 {
		_ = s.framer.WriteData(s.id, true, []byte(body))
		return
	}
	_ = s.framer.WriteData(s.id, false, []byte(body[:cut]))
}

func (s *stream) reset(code http2.ErrCode) { _ = s.framer.WriteRSTStream(s.id, code) }

// goAway says that nothing above last was processed, and closes the connection.
func (s *stream) goAway(last uint32) {
	_ = s.framer.WriteGoAway(last, http2.ErrCodeNo, nil)
	_ = s.conn.Close()
}

// unencrypted is net/http's own transport, speaking HTTP/2 at once.
func unencrypted(t *testing.T) *http.Transport {
	base := &http.Transport{Protocols: new(http.Protocols)}
	base.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(base.CloseIdleConnections)
	return base
}

func quickly(t *semel.Transport) *semel.Transport {
	t.Retry.Backoff = func() semel.Backoff { return atOnce{} }
	t.Retry.MaxAttempts = 3
	return t
}

type atOnce struct{}

func (atOnce) NextBackOff() time.Duration { return time.Millisecond }

// once hides a reader's type, so that the request gets no GetBody.
type once struct{ io.Reader }

func TestHTTP2FramesAndTheOperation(t *testing.T) {
	const body = "a transfer"
	firstThen := func(first func(*stream)) func(int, *stream) {
		return func(n int, s *stream) {
			if n == 1 {
				first(s)
				return
			}
			s.reply("done", -1)
		}
	}
	goAway := func(s *stream) { s.goAway(0) }
	refuse := func(s *stream) { s.reset(http2.ErrCodeRefusedStream) }
	for _, c := range []struct {
		name    string
		answer  func(int, *stream)
		dialect semel.Dialect
		body    io.Reader
		want    string // each body that arrives
	}{
		{"clients.md 15: what a GOAWAY leaves unprocessed is sent again, whole", firstThen(goAway), semel.Dialect{}, strings.NewReader(body), body},
		{"clients.md 16: so is a body without GetBody", firstThen(goAway), semel.Dialect{}, once{strings.NewReader(body)}, body},
		{"clients.md 16: so is a stream that was refused, without GetBody", firstThen(refuse), semel.Dialect{}, once{strings.NewReader(body)}, body},
		{"clients.md 19: a refused stream is sent again even without a key", firstThen(refuse), semel.None, strings.NewReader(body), body},
		{"clients.md 19: and without GetBody", firstThen(refuse), semel.None, once{strings.NewReader(body)}, body},
		{"clients.md 19: and without a body", firstThen(refuse), semel.None, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := startFrames(t, c.answer)
			tr := quickly(&semel.Transport{Base: unencrypted(t), Dialect: c.dialect})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, c.body)
			require.NoError(t, err)
			resp, err := semel.Check(tr.Client().Do(req))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			seen := f.arrivals()
			require.Len(t, seen, 2, "two sends, one of which was processed")
			for _, a := range seen {
				require.Equal(t, framed{seen[0].key, c.want}, a)
			}
			require.Equal(t, len(c.dialect.Methods) == 0 && c.dialect.Methods == nil, seen[0].key != "")
		})
	}
}

// clients.md 17: net/http repeats what got a PROTOCOL_ERROR, hundreds of times in a second.
func TestProtocolErrorsAreBounded(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"with a body": strings.NewReader("x"), "without GetBody": once{strings.NewReader("x")}, "without a body": nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := startFrames(t, func(_ int, s *stream) { s.reset(http2.ErrCodeProtocol) })
			tr := quickly(&semel.Transport{Base: unencrypted(t)})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, body)
			require.NoError(t, err)
			_, err = semel.Check(tr.Client().Do(req))
			var e *semel.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, semel.Unknown)
			require.NoError(t, ctx.Err())
			require.LessOrEqual(t, len(f.arrivals()), 3)
			require.LessOrEqual(t, e.Attempts, 3)
		})
	}
}

// clients.md 20: eight kept connections all die; net/http alone sends nine times.
func TestKeptConnectionsThatDieCostOneAttemptEach(t *testing.T) {
	for name, body := range map[string]string{"with a body": "x", "without a body": ""} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var posts int
			warm := make(chan struct{})
			var gets sync.WaitGroup
			gets.Add(8)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					gets.Done()
					<-warm
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				posts++
				mu.Unlock()
				panic(http.ErrAbortHandler)
			})}
			go s.Serve(l)
			t.Cleanup(func() { s.Close() })
			base := &http.Transport{MaxIdleConnsPerHost: 8}
			t.Cleanup(base.CloseIdleConnections)
			tr := quickly(&semel.Transport{Base: base})
			url := "http://" + l.Addr().String() + "/"
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					resp, err := base.RoundTrip(must(http.NewRequest(http.MethodGet, url, nil)))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			gets.Wait()
			close(warm)
			clients.Wait()
			_, err = semel.Check(tr.Client().Do(must(http.NewRequest(http.MethodPost, url, strings.NewReader(body)))))
			var e *semel.Error
			require.ErrorAs(t, err, &e)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, 3, posts)
			require.Equal(t, posts, e.Attempts)
			require.Equal(t, posts, e.Sends)
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// clients.md 21: a reply that is reset within its body.
func TestAReplyThatIsResetWithinItsBody(t *testing.T) {
	long := strings.Repeat("0123456789", 10)
	script := func(n int, s *stream) {
		if n == 1 {
			s.reply(long, 10)
			s.reset(http2.ErrCodeInternal)
			return
		}
		s.reply(long, -1)
	}
	t.Run("is fetched again under the same key", func(t *testing.T) {
		f := startFrames(t, script)
		tr := quickly(&semel.Transport{Base: unencrypted(t)})
		resp, err := semel.Check(tr.Client().Do(must(http.NewRequest(http.MethodPost, f.url, strings.NewReader("x")))))
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, long, string(b))
		seen := f.arrivals()
		require.Len(t, seen, 2)
		require.Equal(t, seen[0], seen[1])
	})
	t.Run("is an error to its reader if replies are not read within the attempt", func(t *testing.T) {
		f := startFrames(t, script)
		tr := quickly(&semel.Transport{Base: unencrypted(t), MaxReply: -1})
		resp, err := semel.Check(tr.Client().Do(must(http.NewRequest(http.MethodPost, f.url, strings.NewReader("x")))))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
		}
		require.Error(t, err)
		require.ErrorIs(t, err, semel.Applied, "the status had arrived")
		require.False(t, errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF))
		require.Len(t, f.arrivals(), 1)
	})
}

// A trickle is a body without end that can be read once. It cancels the request when it has given so many bytes, within
// a read or beside it, and notices reads after it was closed.
type trickle struct {
	cancel context.CancelFunc
	at     int // which read cancels
	beside bool

	mu          sync.Mutex
	reads       int
	late, ended int // reads after Close, and closes
}

func (b *trickle) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.ended > 0 {
		b.late++
	}
	switch {
	case b.reads != b.at:
	case b.beside:
		go b.cancel()
	default:
		b.cancel()
	}
	return min(len(p), 100), nil
}

func (b *trickle) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended++
	return nil
}

// A stubborn body is one that goes on to be read after it was closed, as net/http once did over HTTP/2.
type stubborn struct {
	io.ReadCloser
	brought *atomic.Int32 // by reads after the close
}

func (b *stubborn) Close() error {
	err := b.ReadCloser.Close()
	for range 3 {
		if n, err := b.ReadCloser.Read(make([]byte, 10)); n > 0 || err == nil {
			b.brought.Add(1)
		}
	}
	return err
}

type stubbornTrip struct {
	http.RoundTripper
	brought atomic.Int32
}

func (s *stubbornTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Body = &stubborn{req.Body, &s.brought}
	return s.RoundTripper.RoundTrip(req)
}

// clients.md 5: what reads a body after it has closed it gets nothing, and does not reach the caller's reader. One read may
// be on its way there when the caller's body is closed, since nothing but its close may wake it.
func TestACancelledHTTP2UploadIsNotReadAfterItsClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	for _, limit := range []int64{0, -1} { // what is kept of a body to send it again
		for n := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			b := &trickle{cancel: cancel, at: 1 + n*n, beside: n%2 == 1}
			base := unencrypted(t)
			trip := &stubbornTrip{RoundTripper: base}
			tr := quickly(&semel.Transport{Base: trip, MaxBody: limit})
			_, err := tr.Client().Do(must(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String()+"/", b)))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, semel.Unknown)
			base.CloseIdleConnections()
			require.Eventually(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.ended > 0 }, 30*time.Second, time.Millisecond, "it is never closed")
			time.Sleep(2 * time.Millisecond) // who would read now
			b.mu.Lock()
			ended, late := b.ended, b.late
			b.mu.Unlock()
			require.Equal(t, 1, ended, "the caller's body is closed once")
			require.LessOrEqual(t, late, 1, "reads of the caller's body began after its close")
			require.Zero(t, trip.brought.Load(), "a body that was closed brought something")
		}
	}
}
