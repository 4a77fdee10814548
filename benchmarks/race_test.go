//go:build race

package benchmarks

// operations of the soak: the race detector makes each some ten times as slow.
const operations = 100_000
