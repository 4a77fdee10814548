// Package semeltest breaks HTTP calls on purpose: it loses any byte at any moment, for a client or a server under test, and
// says which end is wrong. Use it in tests; it works with any client and any server that know idempotency keys.
//
// # Your own client
//
// Say how to perform an operation through a given [net/http.RoundTripper], and what your code believes afterwards:
//
//	func TestMyClient(t *testing.T) {
//		semeltest.TestClient(t, semeltest.Client{Perform: func(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
//			err := shop.New(&http.Client{Transport: base}).Pay(ctx, n)
//			return semeltest.Belief{Outcome: outcomeOf(err)} // Applied, NotApplied, or Unknown, the zero value
//		}})
//	}
//
// A RoundTripper that repeats requests needs less, since what it returns is what it believes:
//
//	func TestMyTransport(t *testing.T) {
//		semeltest.TestTransport(t, func(base http.RoundTripper) http.RoundTripper { return retry.New(base) })
//	}
//
// # Your own server
//
// Give the handler, how the n-th operation is requested, and how often it has taken effect:
//
//	func TestMyServer(t *testing.T) {
//		semeltest.TestServer(t, func(t *testing.T) semeltest.Server {
//			shop := newShop()
//			return semeltest.Server{Handler: shop, Request: orderRequest, Effects: shop.CountOrders}
//		})
//	}
//
// Where the API spells idempotency in its own way, [Rules] say how. A server that cannot be had in the process is tested at
// its URL. [TestStore] is for stores of package testserver.
//
// # Your own case
//
// A [World] is a server and the network before it. [Fault] values say what goes wrong with which attempt of each key, and
// its [History] is what happened at both ends. In a testing/synctest bubble waiting takes no time.
//
// # When a case fails
//
// It prints its rule, what was found instead, and the sequence diagram of what happened. With SEMEL_PICTURES set to a
// directory, each failed case also leaves an SVG there. The numbers in rules are rows of docs/faults.md.
//
// # Time
//
// The Test functions run each case in a testing/synctest bubble, except for live servers, those on sockets, and stores.
// Code in a bubble must not use the real network, wait for goroutines outside, or hold a mutex while it waits; one that
// never returns, or leaves goroutines behind, fails its case. The Check functions open no bubble: they return an error that
// joins a [*Violation] for each broken rule, and can be called outside of tests.
package semeltest
