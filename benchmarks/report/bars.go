package main

import (
	"fmt"
	"strings"
)

// bars judges what was measured over the stub. A bar whose peers were left out is left out too.
func (g grid) bars() []bar {
	var bars []bar
	for _, name := range []string{"semel", "semel.Transport"} {
		bars = append(bars, g.overFloor(name, 2.0, 12)...)
		bars = append(bars, g.overFloor(name+"-off", 1.35, 6)...)
		bars = append(bars, g.cheaper(name, "failsafehttp", "retryablehttp.StandardClient", "resty-v2", "resty-v3", "azcore", "aws-retry", "stripe-go", "openai-go")...)
		bars = append(bars, g.cheaper(name+"-off", "backoff-v4-loop", "rehttp")...)
		bars = append(bars, g.overBare(name)...)
		bars = append(bars, g.copies(name, "retryablehttp.StandardClient", "failsafehttp", "rehttp")...)
		bars = append(bars, g.retry(name)...)
	}
	return bars
}

func (g grid) overFloor(name string, limit, more float64) []bar {
	s, floor := g["POST1K"][name], g["POST1K"]["floor"]
	if s == nil || floor == nil {
		return nil
	}
	return []bar{
		atMost(name+" POST1K, ns over floor's", s.ratio(floor), limit, times),
		atMost(name+" POST1K, allocs over floor's", s.median(allocs)-floor.median(allocs), more, plus),
	}
}

// cheaper wants fewer nanoseconds and allocations than each of the peers.
func (g grid) cheaper(name string, peers ...string) []bar {
	var bars []bar
	s := g["POST1K"][name]
	for _, peer := range peers {
		other := g["POST1K"][peer]
		if s == nil || other == nil {
			continue
		}
		ratio, a, b := s.ratio(other), s.median(allocs), other.median(allocs)
		bars = append(bars, bar{name + " POST1K cheaper than " + peer + " in ns and allocs",
			fmt.Sprintf("%s, %s against %s allocs", times(ratio), num(a), num(b)), ratio < 1 && a < b})
	}
	return bars
}

func (g grid) overBare(name string) []bar {
	var bars []bar
	if s, bare := g["GET"][name], g["GET"]["nethttp.Client"]; s != nil && bare != nil {
		bars = append(bars,
			atMost(name+" GET, ns over nethttp.Client's", s.difference(bare), 150, plus),
			atMost(name+" GET, allocs over nethttp.Client's", s.median(allocs)-bare.median(allocs), 2, plus))
	}
	if s, bare := g["POST1M"][name], g["POST1M"]["nethttp.Client"]; s != nil && bare != nil {
		const reply = 11
		bars = append(bars,
			atMost(name+" POST1M, ns over nethttp.Client's", s.ratio(bare), 1.1, times),
			atMost(name+" POST1M, bytes over nethttp.Client's and the reply", s.median(bytes)-bare.median(bytes)-reply, 3<<10, plus))
	}
	return bars
}

func (g grid) copies(name string, peers ...string) []bar {
	var bars []bar
	s := g["POST1M"][name]
	for _, peer := range peers {
		if other := g["POST1M"][peer]; s != nil && other != nil {
			ratio := other.ratio(s)
			bars = append(bars, bar{peer + " POST1M takes ≥ 10.00× the time of " + name, times(ratio), ratio >= 10})
		}
	}
	return bars
}

// retry wants what one retry adds to be below what it adds to any peer. The floor is no peer.
func (g grid) retry(name string) []bar {
	var bars []bar
	for _, c := range []string{"RetryGET", "RetryPOST1K", "RetryPOST1M"} {
		s, once := g[c][name], g[first[c]][name]
		if s == nil || once == nil {
			continue
		}
		added := s.difference(once)
		var lower []string
		for peer, other := range g[c] {
			base := g[first[c]][peer]
			if strings.HasPrefix(peer, "semel") || peer == "floor" || base == nil {
				continue
			}
			if d := other.difference(base); d < added {
				lower = append(lower, fmt.Sprintf("%s %s", peer, plus(d)))
			}
		}
		measured := plus(added)
		if len(lower) > 0 {
			measured += "; lower: " + strings.Join(lower, ", ")
		}
		bars = append(bars, bar{name + " " + c + ", ns that the retry adds below every peer's", measured, len(lower) == 0})
	}
	return bars
}
