// Package benchmarks measures what semel costs beside the clients it replaces, and what those do to the semel test kit.
//
// A [Peer] is one row of every table: a client that performs an [Op] over a RoundTripper of our choice. It never learns
// which [Case] it runs in. `go test -bench .` runs every peer in every case once; the report command runs interleaved
// passes, prints the tables of docs/performance.md, and judges the bars.
package benchmarks
