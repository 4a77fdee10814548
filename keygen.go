package semel

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// UUIDv4 returns a random key: 122 bits of crypto/rand as a lower-case UUID (RFC 9562, version 4), the shape that most
// APIs take. It needs no request and never fails. It is safe for concurrent use.
func UUIDv4(*http.Request) (string, error) {
	var u uuid.UUID
	rand.Read(u[:]) // never fails, see crypto/rand; one allocation less than uuid.NewRandom
	return stamp(&u, 4), nil
}

// UUIDv7 returns a key that is ordered by time (RFC 9562, version 7), which a server's index likes. It tells everybody who
// sees it when the operation began, to the millisecond, and holds at least 62 random bits. It needs no request and is safe
// for concurrent use.
func UUIDv7(*http.Request) (string, error) {
	u, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("semel: no key could be made: %w", err)
	}
	return u.String(), nil
}

// Derive returns the key of something that has an identity already, such as an order or a queue message. The same parts
// give the same key in every process and every version of this package, so an operation that is begun twice, by a
// redelivery or a second click, still happens once:
//
//	semel.Derive("capture", order.ID)
//
// Name the action and what it is done to, with identifiers that were unique before the operation began. Do not put in
//   - a timestamp or an attempt number: the repeat would get another key, and the effect would happen twice;
//   - the payload: two orders of the same content are two orders, and a corrected payload is still the same order;
//   - anything secret or guessable alone: whoever knows the parts can make the key.
//
// Parts that are missing, because an identifier was empty, give one key to all operations that miss them: the first
// happens, the others do not.
//
// The key is a lower-case UUID of version 8 (RFC 9562): the first 16 bytes of the SHA-256 of all parts, each preceded by
// its length in bytes as 64 bits, big-endian. So ("a", "bc") and ("ab", "c") differ.
func Derive(parts ...string) string {
	var short [256]byte
	buf := short[:0]
	for _, p := range parts {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(p)))
		buf = append(buf, p...)
	}
	sum := sha256.Sum256(buf)
	u := uuid.UUID(sum[:16])
	return stamp(&u, 8)
}

// stamp sets version and variant, RFC 9562 section 4, and returns the text.
func stamp(u *uuid.UUID, version byte) string {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}
