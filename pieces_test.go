package semel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPiecesGiveBackWhatCameInWhateverPortions(t *testing.T) {
	for range 500 {
		want := make([]byte, rand.N(200_000))
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		length := []int64{-1, int64(len(want)), 1, 1 << 60}[rand.N(4)] // a declared length may be wrong
		var ps pieces
		var early place
		var got []byte
		for rest := want; len(rest) > 0; {
			room := ps.room(1+rand.N(40_000), length)
			n := copy(room, rest[:min(len(rest), 1+rand.N(len(room)))])
			ps.grow(n)
			rest = rest[n:]
			p := make([]byte, rand.N(40_000))
			got = append(got, p[:ps.read(&early, p)]...)
		}
		for _, r := range []struct {
			at  place
			got []byte
		}{{early, got}, {}} {
			for {
				p := make([]byte, 1+rand.N(40_000))
				n := ps.read(&r.at, p)
				if n == 0 {
					break
				}
				r.got = append(r.got, p[:n]...)
			}
			require.True(t, bytes.Equal(want, r.got))
		}
		require.EqualValues(t, len(want), ps.size)
	}
}

func TestPiecesOfASmallBodyTakeLittleRoom(t *testing.T) {
	for name, length := range map[string]int64{"known length": 1000, "unknown length": -1} {
		var ps pieces
		ps.room(32<<10, length)
		ps.grow(1000)
		ps.room(8<<10, length) // for the end
		held := 0
		for _, p := range ps.all {
			held += cap(p)
		}
		require.Less(t, held, 5<<10, name)
	}
}
