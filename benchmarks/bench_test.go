package benchmarks

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	ServeIfAsked()
	os.Exit(m.Run())
}

// One operation over a transport in memory, from building the request to reading the reply.
func BenchmarkStub(b *testing.B) {
	for _, c := range Cases() {
		for _, p := range Peers() {
			r, err := NewRunner(&p, &c)
			if err != nil {
				continue // TestPeers tells which and why
			}
			b.Run(c.Name+"/peer="+p.Name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Do(); err != nil {
						b.Fatal(err)
					}
				}
				if err := r.Check(uint64(b.N)); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// One POST of 1 KiB over kept-alive connections to a server in another process. The allocations are the client's alone.
func BenchmarkLoopback(b *testing.B) {
	base, stop, err := StartServer()
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	for name, workers := range map[string]int{"serial": 1, "parallel": Workers()} {
		for _, p := range Peers() {
			b.Run(name+"/peer="+p.Name, func(b *testing.B) {
				l, err := NewLoopback(&p, base)
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				b.ReportAllocs()
				b.ResetTimer()
				_, latencies, err := l.Run(b.N, workers)
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(micros(Median(latencies)), "p50-µs")
				b.ReportMetric(micros(Quantile(latencies, 0.99)), "p99-µs")
			})
		}
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
