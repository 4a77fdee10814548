package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/semel-go/semel/benchmarks"
)

// A load is how the operations come: one after the other, or from many goroutines.
type load struct {
	name    string
	workers int
}

func loads() []load {
	return []load{{"serial", 1}, {"parallel", benchmarks.Workers()}}
}

func connect(base string, peers []benchmarks.Peer) ([]*benchmarks.Loopback, error) {
	var all []*benchmarks.Loopback
	for _, p := range peers {
		l, err := benchmarks.NewLoopback(&p, base)
		if err != nil {
			return nil, fmt.Errorf("%s over loopback: %w", p.Name, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// fit returns how many operations of bare net/http fill the time.
func fit(l *benchmarks.Loopback, workers int, long time.Duration) (int, error) {
	s, _, err := l.Run(100*workers, workers)
	return max(workers, int(float64(long)/s.NS)), err
}

func reportLoopback(peers []benchmarks.Peer) error {
	base, stop, err := benchmarks.StartServer()
	if err != nil {
		return err
	}
	defer stop()
	all, err := connect(base, peers)
	if err != nil {
		return err
	}
	for _, load := range loads() {
		n, err := fit(all[0], load.workers, 4**slice)
		if err != nil {
			return err
		}
		samples, latencies := map[string]series{}, map[string][]time.Duration{}
		for range *passes {
			for _, i := range rand.Perm(len(all)) {
				s, lat, err := all[i].Run(n, load.workers)
				if err != nil {
					return err
				}
				name := all[i].Peer.Name
				samples[name], latencies[name] = append(samples[name], s), append(latencies[name], lat...)
			}
		}
		printLoopback(load, all, samples, latencies)
	}
	for _, l := range all {
		l.Close()
	}
	return nil
}

func printLoopback(load load, all []*benchmarks.Loopback, samples map[string]series, latencies map[string][]time.Duration) {
	t := table{"peer", "ops/s", "p50 µs", "p99 µs", "B/op", "allocs/op"}
	t.head(fmt.Sprintf("loopback, %s (%d at once)", load.name, load.workers))
	slices.SortStableFunc(all, func(a, b *benchmarks.Loopback) int {
		return int(samples[a.Peer.Name].median(ns) - samples[b.Peer.Name].median(ns))
	})
	for _, l := range all {
		s, lat := samples[l.Peer.Name], latencies[l.Peer.Name]
		t.row(l.Peer.Name, num(1e9/s.median(ns)),
			num(float64(benchmarks.Median(lat))/1e3), num(float64(benchmarks.Quantile(lat, 0.99))/1e3),
			num(s.median(bytes)), num(s.median(allocs)))
	}
}

// reportPairs compares with bare net/http, pair by pair. The second bare row is the control: its ratio is 1 but for noise.
func reportPairs() ([]bar, error) {
	base, stop, err := benchmarks.StartServer()
	if err != nil {
		return nil, err
	}
	defer stop()
	var peers []benchmarks.Peer
	for _, name := range []string{"nethttp.Client", "nethttp.Client", "floor", "semel", "semel.Transport", "semel-off"} {
		for _, p := range benchmarks.Peers() {
			if p.Name == name {
				peers = append(peers, p)
			}
		}
	}
	all, err := connect(base, peers)
	if err != nil {
		return nil, err
	}
	var bars []bar
	for _, load := range loads() {
		judged, err := compare(load, all)
		if err != nil {
			return nil, err
		}
		bars = append(bars, judged...)
	}
	for _, l := range all {
		l.Close()
	}
	return bars, nil
}

func compare(load load, all []*benchmarks.Loopback) ([]bar, error) {
	n, err := fit(all[0], load.workers, 2**slice)
	if err != nil {
		return nil, err
	}
	ratios := make([][]float64, len(all))
	took := make([]float64, len(all))
	tails := make([][]time.Duration, len(all))
	for range *pairs {
		for _, i := range rand.Perm(len(all)) {
			s, lat, err := all[i].Run(n, load.workers)
			if err != nil {
				return nil, err
			}
			took[i], tails[i] = s.NS, append(tails[i], lat...)
		}
		for i := range all {
			ratios[i] = append(ratios[i], took[i]/took[0])
		}
	}
	t := table{"peer", "median ratio to nethttp.Client", "upper 95 % bound", "p99 µs"}
	t.head(fmt.Sprintf("loopback pairs, %s: %d pairs of %d operations", load.name, *pairs, n))
	var bars []bar
	for i, l := range all {
		name := l.Peer.Name
		if i == 1 {
			name += " again"
		}
		bound := benchmarks.UpperBound(ratios[i])
		t.row(name, fmt.Sprintf("%.3f", benchmarks.Median(ratios[i])), fmt.Sprintf("%.3f", bound),
			num(float64(benchmarks.Quantile(tails[i], 0.99))/1e3))
		if name == "semel" || name == "semel.Transport" {
			bars = append(bars, atMost(fmt.Sprintf("%s over loopback, %s, upper bound of the ratio", name, load.name), bound, 1.05,
				func(f float64) string { return fmt.Sprintf("%.3f", f) }))
		}
	}
	return bars, nil
}
