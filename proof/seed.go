package proof

import "time"

// A Seed is where everything random in a world comes from. Each decision hashes the seed together with what the decision is
// about, and not with how many were made before, so that one more decision changes no other.
type Seed uint64

// hash is FNV-1a with the finalizer of MurmurHash3, for FNV's low bits are poor.
func (s Seed) hash(what string, about ...int) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037) ^ uint64(s)*0x9e3779b97f4a7c15
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * prime
	}
	for _, n := range about {
		h = (h ^ uint64(n) ^ 0x5bd1e995) * prime
		h ^= h >> 29
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Part returns a number in [0, 1).
func (s Seed) Part(what string, about ...int) float64 {
	return float64(s.hash(what, about...)>>11) / (1 << 53)
}

// Chance returns true with probability p.
func (s Seed) Chance(p float64, what string, about ...int) bool { return s.Part(what, about...) < p }

// Pick returns a number in [0, n).
func (s Seed) Pick(n int, what string, about ...int) int {
	return int(s.hash(what, about...) >> 1 % uint64(n))
}

// Between returns a whole number of microseconds in [low, high).
func (s Seed) Between(low, high time.Duration, what string, about ...int) time.Duration {
	return (low + time.Duration(s.Part(what, about...)*float64(high-low))).Truncate(time.Microsecond)
}
