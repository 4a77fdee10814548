package semel

// pieces are bytes in the order in which they came. They are never moved, so that keeping a body costs no second copy of it.
type pieces struct {
	all  [][]byte
	size int64
}

// A place is how far somebody has read.
type place struct{ piece, off int }

const (
	firstPiece = 2 << 10 // bytes, of a body whose length is not known
	mostPiece  = 64 << 10
	leastRoom  = 512 // a read of less is not worth its while
)

// room returns where the next bytes go, at most size of them: behind the last piece, or in a new one. Length is what there
// will be in all, if that is known.
func (ps *pieces) room(size int, length int64) []byte {
	next := firstPiece
	if length > 0 {
		next = int(min(length-min(ps.size, length), mostPiece)) + leastRoom // what ends the body needs room too
	}
	if n := len(ps.all); n > 0 {
		last := ps.all[n-1]
		if free := last[len(last):cap(last)]; len(free) >= min(size, leastRoom) {
			return free[:min(size, len(free))]
		}
		if length <= 0 {
			next = min(2*cap(last), mostPiece)
		}
	}
	piece := make([]byte, 0, next)
	ps.all = append(ps.all, piece)
	return piece[:min(size, next)]
}

// grow keeps n bytes of the room.
func (ps *pieces) grow(n int) {
	last := &ps.all[len(ps.all)-1]
	*last = (*last)[:len(*last)+n]
	ps.size += int64(n)
}

// read copies what comes after a place, and moves the place on.
func (ps *pieces) read(at *place, p []byte) (n int) {
	for at.piece < len(ps.all) {
		some := copy(p[n:], ps.all[at.piece][at.off:])
		n += some
		at.off += some
		if at.off < len(ps.all[at.piece]) || at.piece == len(ps.all)-1 {
			break
		}
		*at = place{piece: at.piece + 1}
	}
	return n
}
