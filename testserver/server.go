package testserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A Server is a [Bank] behind a [Guard] on a loopback port. Make one with [New], change what the test is about, and
// Start it; or let [Start] do all. The fields must not change once it has got a request.
type Server struct {
	Bank  *Bank
	Guard *Guard

	// Listener, if not nil, is served instead of a loopback port.
	Listener net.Listener
	// TLS serves HTTP/2 and HTTP/1.1 over TLS, with a certificate that [Server.Client] trusts.
	TLS bool

	URL string // without a slash at its end; set by Start

	http   *http.Server
	client *http.Client
	done   chan struct{}
}

// New returns a server that does not listen yet, with the accounts alice and bob of 1000 each, a [MemStore] and the
// [GlobalScope].
func New(faults ...Fault) *Server {
	bank := new(Bank)
	bank.Open("alice", 1000)
	bank.Open("bob", 1000)
	return &Server{Bank: bank, Guard: &Guard{Next: bank, Store: new(MemStore), Scope: GlobalScope, Fault: inject(faults)}}
}

// TB is the part of [testing.TB] that [Start] needs. This package does not link package testing into programs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start starts a server as [New] makes it, and closes it at the end of the test.
func Start(tb TB, faults ...Fault) *Server {
	tb.Helper()
	s := New(faults...)
	if err := s.Start(); err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		tb.Helper()
		if err := s.Close(); err != nil {
			tb.Fatalf("%v", err)
		}
	})
	return s
}

// Handler returns what the server serves: validation, guard and bank.
func (s *Server) Handler() http.Handler { return s.Bank.Validate(s.Guard) }

// Start listens and serves until Close.
func (s *Server) Start() error {
	if err := s.Guard.Check(); err != nil {
		return err
	}
	l := s.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("testserver: no loopback port to listen on: %w", err)
		}
	}
	s.http = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	s.done = make(chan struct{})
	transport := &http.Transport{ForceAttemptHTTP2: true}
	s.client = &http.Client{Transport: transport}
	s.URL = "http://" + l.Addr().String()
	serve := func() error { return s.http.Serve(l) }
	if s.TLS {
		cert, roots, err := selfSigned()
		if err != nil {
			return errors.Join(err, l.Close())
		}
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		s.URL = "https://" + l.Addr().String()
		serve = func() error { return s.http.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(s.done)
		_ = serve() // ends with ErrServerClosed
	}()
	return nil
}

// Client returns a client that trusts the server's certificate. Each server has one, with connections of its own.
func (s *Server) Client() *http.Client { return s.client }

// Close waits for a few seconds until requests under way have ended, and then cuts their connections. It returns an error
// if a handler is still running after that. A server that did not start is closed already.
func (s *Server) Close() error {
	if s.http == nil {
		return nil
	}
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = s.http.Shutdown(ctx) // an error means that some connections are busy
	_ = s.http.Close()
	<-s.done
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.Guard.Drain(ctx)
}
