//go:build !race

package benchmarks

import "testing"

// Allocations of one operation beyond those of bare net/http, exactly: a change in either direction belongs into this table.
// A retry is compared with one bare request. CI guards these and no times.
var allocsOverBare = []struct {
	c                       string
	client, transport       float64
	clientOff, transportOff float64 // without attempt timeout and without reading replies ahead
}{
	{"GET", 2, 1, 2, 1},
	{"POST1K", 10, 9, 7, 6},
	{"POST1M", 11, 10, 7, 6},
	{"Reader1K", 19, 18, 14, 13},
	{"Reply64K", 10, 9, 7, 6},
	{"RetryGET", 10, 9, 10, 9},
	{"RetryPOST1K", 21, 20, 16, 15},
}

func TestSemelAllocatesWhatItIsAllowed(t *testing.T) {
	for _, want := range allocsOverBare {
		bare := allocations(t, "nethttp.Client", first(want.c))
		for peer, more := range map[string]float64{
			"semel": want.client, "semel.Transport": want.transport,
			"semel-off": want.clientOff, "semel.Transport-off": want.transportOff,
		} {
			if got := allocations(t, peer, want.c) - bare; got != more {
				t.Errorf("%s in %s: %+v allocations over bare net/http, want %+v", peer, want.c, got, more)
			}
		}
	}
}

func first(c string) string {
	const retry = "Retry"
	if len(c) > len(retry) && c[:len(retry)] == retry {
		return c[len(retry):]
	}
	return c
}

func allocations(t *testing.T, peer, name string) float64 {
	t.Helper()
	for _, p := range Peers() {
		for _, c := range Cases() {
			if p.Name != peer || c.Name != name {
				continue
			}
			r, err := NewRunner(&p, &c)
			if err != nil {
				t.Fatal(err)
			}
			return testing.AllocsPerRun(500, func() {
				if err := r.Do(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	t.Fatalf("there is no %s in %s", peer, name)
	return 0
}
