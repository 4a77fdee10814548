package pgstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/semel-go/semel/testserver"
)

// ErrTooLarge means that an answer has more bytes than [Store.MaxAnswer] and was not stored.
var ErrTooLarge = errors.New("pgstore: the answer is too large to be stored")

// headerVersion is the first byte of a stored header, so that an older process refuses what it cannot read.
const headerVersion = 1

func encode(fields []testserver.Field) []byte {
	b := []byte{headerVersion}
	for _, f := range fields {
		b = binary.AppendUvarint(b, uint64(len(f.Name)))
		b = append(b, f.Name...)
		b = binary.AppendUvarint(b, uint64(len(f.Value)))
		b = append(b, f.Value...)
	}
	return b
}

func decode(status *int32, header, body []byte) (*testserver.Answer, error) {
	if status == nil || len(header) == 0 {
		return nil, errors.New("a settled row without an answer")
	}
	if header[0] != headerVersion {
		return nil, fmt.Errorf("the answer's header has version %d, this process knows %d: a newer one wrote it", header[0], headerVersion)
	}
	a := &testserver.Answer{Status: int(*status), Body: body}
	for b := header[1:]; len(b) > 0; {
		var f testserver.Field
		var ok bool
		if f.Name, b, ok = cut(b); !ok {
			return nil, errors.New("the answer's header is damaged")
		}
		if f.Value, b, ok = cut(b); !ok {
			return nil, errors.New("the answer's header is damaged")
		}
		a.Header = append(a.Header, f)
	}
	return a, nil
}

// cut takes one length-prefixed string off b.
func cut(b []byte) (string, []byte, bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	b = b[size:]
	return string(b[:n]), b[n:], true
}

// columnsOf returns what settles a row: state, status, header, body.
func (s *Store) columnsOf(end testserver.Settlement) ([]any, error) {
	switch {
	case end.State == testserver.Unknown:
		return []any{int16(end.State), nil, nil, nil}, nil
	case end.State != testserver.Completed && end.State != testserver.Tombstone:
		return nil, fmt.Errorf("state %d is no end", end.State)
	case end.Answer == nil:
		return nil, errors.New("no answer to store")
	}
	header := encode(end.Answer.Header)
	body := slices.Clone(end.Answer.Body)
	if end.State == testserver.Tombstone {
		body = nil
	}
	if most := orElse(s.MaxAnswer, 8<<20); len(header)+len(body) > most {
		return nil, fmt.Errorf("%w: header %d and body %d bytes, MaxAnswer is %d", ErrTooLarge, len(header), len(body), most)
	}
	return []any{int16(end.State), int32(end.Answer.Status), header, body}, nil
}
