package semeltest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A World is a server, the network before it, and what goes wrong between them. It is the [http.RoundTripper] of the
// client under test: every call of it is an attempt of the key that the request carries. It works in a testing/synctest
// bubble, where waiting takes no time, as well as outside. Its fields must not change once it is in use; [World.Close]
// ends it.
//
//	synctest.Test(t, func(t *testing.T) {
//		world := &semeltest.World{Handler: myServer, Faults: []semeltest.Fault{semeltest.LoseReply(1)}}
//		defer world.Close()
//		myClient.HTTP = &http.Client{Transport: world}
//		…
//		t.Log(world.History())
//	})
type World struct {
	// Handler is the server: requests reach it whatever their host. If nil, they go where their URL says, over real
	// connections and through a [Proxy]; then the server's end is not in the history.
	Handler http.Handler
	Faults  []Fault
	Header  string      // carries the key; if empty, Idempotency-Key
	HTTP2   bool        // speak HTTP/2, with TLS for https and without for http
	Sockets bool        // serve Handler on loopback connections; never in a bubble
	TLS     *tls.Config // of the client, for live servers

	mu        sync.Mutex
	started   bool
	failed    error
	networks  [2]Network // plain and with TLS
	proxy     Proxy
	transport *http.Transport
	server    *http.Server
	history   History
	keys      map[string]*keyState
	distrust  bool            // the client does not trust the server's certificate
	limit     int             // of attempts; one beyond it never returns, so that a loop without end is found
	made      atomic.Int64    // attempts
	attempts  map[string]*try // by the name that goes along with their requests
	performed map[int]string  // keys, by the operation of the context
	unclosed  atomic.Int32    // replies whose bodies are neither closed nor read to their end
	closed    chan struct{}
	conns     map[net.Conn]bool // that the server still works on
	running   sync.WaitGroup
}

// A keyState counts the attempts of a key.
type keyState struct {
	op       int
	attempts int
}

// History returns what has happened so far.
func (w *World) History() *History { return &w.history }

func (w *World) header() string {
	if w.Header == "" {
		return "Idempotency-Key"
	}
	return w.Header
}

func (w *World) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return w.failed
	}
	w.started, w.closed = true, make(chan struct{})
	w.keys, w.attempts, w.performed = make(map[string]*keyState), make(map[string]*try), make(map[int]string)
	w.transport = &http.Transport{
		DialContext: w.proxy.DialContext, TLSClientConfig: w.TLS, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 1000, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
	}
	if w.Handler != nil {
		w.failed = w.serve()
	}
	return w.failed
}

// serve starts the server, on two listeners: plain and with TLS.
func (w *World) serve() error {
	cert, roots, err := selfSigned()
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(!w.HTTP2)
	protocols.SetHTTP2(w.HTTP2)
	protocols.SetUnencryptedHTTP2(w.HTTP2)
	next := []string{"http/1.1"}
	if w.HTTP2 {
		next = []string{"h2"}
	}
	w.conns = make(map[net.Conn]bool)
	w.server = &http.Server{Handler: http.HandlerFunc(w.handle), ConnState: w.connState, Protocols: &protocols, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: next,
		SessionTicketsDisabled: true, // they would count as bytes of the first reply
	}}
	var dials [2]func(context.Context, string, string) (net.Conn, error)
	for i := range w.networks {
		l := net.Listener(nil)
		if w.Sockets {
			if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				return err
			}
			dials[i] = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return w.proxy.DialContext(ctx, network, l.Addr().String())
			}
		} else {
			l, dials[i] = w.networks[i].Listen(), w.networks[i].DialContext
		}
		w.running.Go(func() {
			if i == 0 {
				_ = w.server.Serve(l) // ends with ErrServerClosed
			} else {
				_ = w.server.ServeTLS(l, "", "")
			}
		})
	}
	w.transport.Protocols, w.transport.DialContext = &protocols, dials[0]
	w.transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dials[1](ctx, network, address)
		if err != nil {
			return nil, err
		}
		trusted := roots
		if w.distrust {
			trusted = x509.NewCertPool()
		}
		secure := tls.Client(c, &tls.Config{RootCAs: trusted, ServerName: certHost, NextProtos: next})
		if err := secure.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, err
		}
		return secure, nil
	}
	return nil
}

// connState counts the connections that the server works on, which it does for half a second after it has closed some.
func (w *World) connState(c net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case state == http.StateNew && !w.conns[c]: // from within Serve, which counts as running
		w.conns[c] = true
		w.running.Add(1)
	case (state == http.StateClosed || state == http.StateHijacked) && w.conns[c]:
		delete(w.conns, c)
		w.running.Done()
	}
}

// Close cuts all connections, ends what still travels, and waits until nothing of the server runs.
func (w *World) Close() error {
	w.mu.Lock()
	started, server := w.started, w.server
	if started && w.failed == nil && !isClosed(w.closed) {
		close(w.closed)
	}
	w.mu.Unlock()
	if !started {
		return nil
	}
	w.transport.CloseIdleConnections()
	if server != nil {
		_ = server.Close()
	}
	for i := range w.networks {
		w.networks[i].Reset()
	}
	_ = w.proxy.Close()
	w.running.Wait()
	w.transport.CloseIdleConnections()
	return nil
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// CloseIdleConnections closes the client's idle connections.
func (w *World) CloseIdleConnections() {
	if w.start() == nil {
		w.transport.CloseIdleConnections()
	}
}

// RoundTrip makes one attempt.
func (w *World) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := w.start(); err != nil {
		closeBody(req)
		return nil, err
	}
	if n := w.made.Add(1); w.limit > 0 && (n > int64(w.limit) || isClosed(w.closed)) {
		select {}
	}
	return w.number(req).roundTrip(req)
}

// number finds out which attempt of its key the request is.
func (w *World) number(req *http.Request) *try {
	key := ""
	for name, values := range req.Header {
		if strings.EqualFold(name, w.header()) && len(values) > 0 {
			key = values[0]
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[key]
	if k == nil {
		k = &keyState{op: len(w.keys) + 1}
		w.keys[key] = k
	}
	k.attempts++
	y := &try{world: w, id: randomName(), method: req.Method, key: key, op: k.op, n: k.attempts, trouble: troubleOf(w.Faults, k.op, k.attempts)}
	w.attempts[y.id] = y
	if n, ok := req.Context().Value(performKey{}).(int); ok && !safe(req.Method) {
		w.performed[n] = key
	}
	return y
}

func safe(method string) bool {
	return method == "" || method == http.MethodGet || method == http.MethodHead
}

// find returns the attempt that a request at the server belongs to; nil if the world's client did not send it.
func (w *World) find(id string) *try {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempts[id]
}

func (w *World) record(y *try, kind Kind, status int, detail string) {
	e := Event{Kind: kind, Status: status, Detail: detail}
	if y != nil {
		e.Key, e.Op, e.N, e.Copy, e.method = y.key, y.op, y.n, y.copy, y.method
	}
	w.history.add(e)
}
