//go:build !race

package benchmarks

const operations = 1_000_000
