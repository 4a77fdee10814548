package semel_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
)

// A site is a real http.Server that answers by a script and remembers what arrived.
type site struct {
	URL    string
	base   *http.Transport
	server *httptest.Server
	net    *semeltest.Network // nil on real sockets

	mu      sync.Mutex
	script  []step // one for each request; the last one for all further
	arrived []arrival
}

// A step is how the server treats one request, whose body has been read.
type step func(w http.ResponseWriter, r *http.Request)

// An arrival is a request as the server's handler saw it.
type arrival struct {
	*http.Request
	body string
	at   time.Time
}

// key is the one key that arrived; "" for none, and a test failure for several.
func (a arrival) key(t *testing.T) string {
	t.Helper()
	keys := a.Header.Values("Idempotency-Key")
	require.LessOrEqual(t, len(keys), 1, "exactly one key goes out")
	return strings.Join(keys, "")
}

// newSite serves on a real socket of the loopback interface.
func newSite(t *testing.T, script ...step) *site {
	s := &site{script: script, base: new(http.Transport)}
	s.server = httptest.NewServer(s)
	s.URL = s.server.URL
	t.Cleanup(s.close)
	return s
}

// inBubble runs a test against a server on a simulated network, where waiting takes no time.
func inBubble(t *testing.T, test func(t *testing.T, s *site), script ...step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(script...)
		defer s.close()
		test(t, s)
	})
}

func newSimulated(script ...step) *site {
	s := &site{script: script, net: new(semeltest.Network), URL: "http://api.test"}
	s.base = &http.Transport{DialContext: s.net.DialContext}
	s.server = &httptest.Server{Listener: s.net.Listen(), Config: &http.Server{Handler: s}}
	s.server.Start()
	return s
}

func (s *site) close() {
	s.base.CloseIdleConnections()
	s.server.CloseClientConnections()
	s.server.Close()
	if s.net != nil {
		time.Sleep(time.Second) // what net/http still has to do after a close
	}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.arrived = append(s.arrived, arrival{r, string(body), time.Now()})
	do := s.script[min(len(s.arrived), len(s.script))-1]
	s.mu.Unlock()
	do(w, r)
}

// requests are what has arrived so far.
func (s *site) requests() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrived...)
}

// keys are the keys of what has arrived so far, in order.
func (s *site) keys(t *testing.T) (keys []string) {
	t.Helper()
	for _, a := range s.requests() {
		keys = append(keys, a.key(t))
	}
	return keys
}

// then replaces the script from the next request on.
func (s *site) then(script ...step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived, s.script = nil, script
}

// client is a semel client whose transport can be changed before it is used.
func (s *site) client(edit ...func(*semel.Transport)) *semel.Client {
	return &semel.Client{HTTP: s.transport(edit...).Client()}
}

func (s *site) transport(edit ...func(*semel.Transport)) *semel.Transport {
	tr := &semel.Transport{Base: s.base}
	if s.net == nil {
		tr.Retry.Backoff = atOnce
	}
	for _, e := range edit {
		e(tr)
	}
	return tr
}

func (s *site) post(t *testing.T, body string) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPost, s.URL+"/transfers", body)
}

func newRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, r)
	require.NoError(t, err)
	return req
}

// constant is a schedule of equal waits.
type constant time.Duration

func (c constant) NextBackOff() time.Duration { return time.Duration(c) }

func atOnce() semel.Backoff { return constant(time.Microsecond) }

// A base is a RoundTripper made of a function.
type base func(*http.Request) (*http.Response, error)

func (f base) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply answers; header is a list of names and values.
func reply(status int, body string, header ...string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// problem answers with a problem document of this code.
func problem(status int, code string, header ...string) step {
	return reply(status, `{"code":"`+code+`"}`, append(header, "Content-Type", "application/problem+json")...)
}

// lose loses the reply: the connection is closed after the request was read.
func lose(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// silence never answers.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// cut answers with a head that promises 100 bytes and brings 10.
func cut(status int, header ...string) step {
	return func(w http.ResponseWriter, r *http.Request) {
		reply(status, "0123456789", append(header, "Content-Length", "100")...)(w, r)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// redirect sends the client on.
func redirect(status int, target string) step {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", target)
		w.WriteHeader(status)
	}
}

// read takes the reply's body and closes it.
func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

// failed returns the *semel.Error in err, and requires that there is one.
func failed(t *testing.T, err error) *semel.Error {
	t.Helper()
	var e *semel.Error
	require.ErrorAs(t, err, &e)
	return e
}

// outcomeOf is what the caller of Do may believe: the error's outcome, or with an answer the one that its status stands for.
func outcomeOf(resp *http.Response, err error) semel.Outcome {
	var e *semel.Error
	switch {
	case errors.As(err, &e):
		return e.Outcome
	case resp.StatusCode < 400:
		return semel.Applied
	default:
		return semel.NotApplied
	}
}

// A source is a request body that counts what is done to it.
type source struct {
	io.Reader
	mu                sync.Mutex
	closes, lateReads int
}

func newSource(body string) *source { return &source{Reader: strings.NewReader(body)} }

func (s *source) Read(b []byte) (int, error) {
	s.mu.Lock()
	if s.closes > 0 {
		s.lateReads++
	}
	s.mu.Unlock()
	return s.Reader.Read(b)
}

func (s *source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closes++
	return nil
}

// closedOnce requires that the body was closed, once, and never read after that.
func (s *source) closedOnce(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, 1, s.closes, "the caller's body is closed exactly once")
	require.Zero(t, s.lateReads, "the caller's body is not read after it was closed")
}

// warm opens n idle connections to the site.
func (s *site) warm(t *testing.T, n int) {
	t.Helper()
	s.base.MaxIdleConnsPerHost = n
	all := make(chan struct{})
	var here sync.WaitGroup
	here.Add(n)
	go func() { here.Wait(); close(all) }()
	s.then(func(w http.ResponseWriter, r *http.Request) { here.Done(); <-all })
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			resp, err := s.base.RoundTrip(newRequest(t, "GET", s.URL, ""))
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// dialing is a base whose dials fail with err.
func dialing(err error) *http.Transport {
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}}
}

// quiet is a log that nobody reads.
var quiet = log.New(io.Discard, "", 0)

func or(s, zero string) string {
	if s == "" {
		return zero
	}
	return s
}
