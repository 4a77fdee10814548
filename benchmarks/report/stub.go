package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"

	"github.com/semel-go/semel/benchmarks"
)

// series are the samples of one peer in one case: number i is of pass i, for all peers.
type series []benchmarks.Sample

func (s series) median(of func(benchmarks.Sample) float64) float64 {
	values := make([]float64, len(s))
	for i, sample := range s {
		values[i] = of(sample)
	}
	return benchmarks.Median(values)
}

func ns(s benchmarks.Sample) float64     { return s.NS }
func bytes(s benchmarks.Sample) float64  { return s.Bytes }
func allocs(s benchmarks.Sample) float64 { return math.Round(s.Allocs) } // the rest is the runtime's

// ratio and difference compare pass by pass, so that a slow phase of the machine counts for both sides.
func (s series) ratio(base series) float64 {
	return s.against(base, func(a, b float64) float64 { return a / b })
}

func (s series) difference(base series) float64 {
	return s.against(base, func(a, b float64) float64 { return a - b })
}

func (s series) against(base series, op func(a, b float64) float64) float64 {
	values := make([]float64, len(s))
	for i := range s {
		values[i] = op(s[i].NS, base[i].NS)
	}
	return benchmarks.Median(values)
}

// grid holds the series by case and peer. A pair that does not work is absent.
type grid map[string]map[string]series

func reportStub(peers []benchmarks.Peer) ([]bar, error) {
	wanted, err := regexp.Compile(*cases)
	if err != nil {
		return nil, err
	}
	g := grid{}
	var measured []benchmarks.Case
	for _, c := range benchmarks.Cases() {
		if !wanted.MatchString(c.Name) {
			continue
		}
		if g[c.Name], err = measure(peers, &c); err != nil {
			return nil, err
		}
		measured = append(measured, c)
	}
	if g.has("POST1K") && g.has("POST1M") && g.has("RetryPOST1K") {
		g.summary(peers)
	}
	for _, c := range measured {
		g.print(peers, c)
	}
	return g.bars(), nil
}

func measure(peers []benchmarks.Peer, c *benchmarks.Case) (map[string]series, error) {
	type entry struct {
		*benchmarks.Runner
		n int
	}
	var entries []entry
	for _, p := range peers {
		r, err := benchmarks.NewRunner(&p, c)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s is not in %s: %v\n", p.Name, c.Name, err)
			continue
		}
		n, err := r.Fit(*slice)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", p.Name, c.Name, err)
		}
		entries = append(entries, entry{r, n})
	}
	samples := map[string]series{}
	for range *passes {
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		for _, e := range entries {
			s, err := e.Measure(e.n)
			if err != nil {
				return nil, fmt.Errorf("%s in %s: %w", e.Peer.Name, c.Name, err)
			}
			samples[e.Peer.Name] = append(samples[e.Peer.Name], s)
		}
	}
	return samples, nil
}

func (g grid) has(c string) bool { return len(g[c]) > 0 }

// first is the case without the retry.
var first = map[string]string{"RetryGET": "GET", "RetryPOST1K": "POST1K", "RetryPOST1M": "POST1M", "RetryReader1K": "Reader1K"}

func (g grid) print(peers []benchmarks.Peer, c benchmarks.Case) {
	bare := g[c.Name]["nethttp.Client"]
	compared := "over nethttp.Client: ns"
	if first[c.Name] != "" {
		compared = "the retry adds: ns"
	}
	t := table{"peer", "ns/op", "B/op", "allocs/op", compared, "B", "allocs"}
	t.head(c.Name)
	names := make([]string, 0, len(peers))
	for _, p := range peers {
		if g[c.Name][p.Name] != nil {
			names = append(names, p.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return int(g[c.Name][a].median(ns) - g[c.Name][b].median(ns))
	})
	for _, name := range names {
		s := g[c.Name][name]
		base := bare
		if first[c.Name] != "" {
			base = g[first[c.Name]][name]
		}
		cells := []string{name, num(s.median(ns)), num(s.median(bytes)), num(s.median(allocs)), "", "", ""}
		if base != nil {
			cells[4] = plus(s.difference(base))
			cells[5] = plus(s.median(bytes) - base.median(bytes))
			cells[6] = plus(s.median(allocs) - base.median(allocs))
		}
		t.row(cells...)
	}
}

// summary is the table of the README.
func (g grid) summary(peers []benchmarks.Peer) {
	t := table{"client", "POST 1 KiB, ns", "allocs", "POST 1 MiB, µs", "B", "one retry adds, ns", "allocs"}
	t.head("summary")
	for _, p := range peers {
		small, large, retried := g["POST1K"][p.Name], g["POST1M"][p.Name], g["RetryPOST1K"][p.Name]
		if small == nil || large == nil {
			continue
		}
		cells := []string{p.Name, num(small.median(ns)), num(small.median(allocs)),
			num(large.median(ns) / 1e3), num(large.median(bytes)), "", ""}
		if retried != nil {
			cells[5] = num(retried.difference(small))
			cells[6] = num(retried.median(allocs) - small.median(allocs))
		}
		t.row(cells...)
	}
}
