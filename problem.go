package semel

import (
	"bytes"
	"encoding/json"
	"mime"
	"strconv"
	"strings"
)

// A problem is what an error reply tells about its key in its first bytes.
type problem struct {
	code   string // top-level "code"
	typ    string // top-level "type" (RFC 9457)
	status int    // top-level "original_status" of a reply that was not retained; 0 if there is none between 100 and 599

	// idempotency says that the text speaks of idempotency, in whatever format: evidence that the reply is about the key.
	idempotency bool
}

// readProblem reads the first bytes of a reply. They may end anywhere: a member that is not there whole is not there, and
// what comes before an error in the JSON counts. Members of the wrong type are left out. Only JSON has members.
func readProblem(contentType string, prefix []byte) problem {
	p := problem{idempotency: mentions(prefix, "idempoten")}
	if !isJSON(contentType) {
		return p
	}
	d := json.NewDecoder(bytes.NewReader(prefix))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return p
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return p
		}
		value, err := scalar(d)
		if err != nil {
			return p
		}
		switch name { // of two members with one name the last counts, as everywhere in encoding/json
		case "code":
			p.code, _ = value.(string)
		case "type":
			p.typ, _ = value.(string)
		case "original_status":
			p.status = 0
			if n, err := strconv.Atoi(number(value)); err == nil && n >= 100 && n <= 599 && d.InputOffset() < int64(len(prefix)) {
				p.status = n // and not one that was cut
			}
		}
	}
	return p
}

func number(value any) string {
	n, _ := value.(json.Number)
	return n.String()
}

// scalar reads one value; of an object or array nothing is kept.
func scalar(d *json.Decoder) (any, error) {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			if _, composite := t.(json.Delim); composite {
				return nil, nil
			}
			return t, nil
		}
	}
}

// mentions reports whether the text contains the lower-case ASCII word in any casing.
func mentions[T string | []byte](text T, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		n := 0
		for n < len(word) && text[i+n]|0x20 == word[n] {
			n++
		}
		if n == len(word) {
			return true
		}
	}
	return false
}

// isJSON reports whether the content type is JSON or has its suffix (RFC 6839).
func isJSON(contentType string) bool {
	if !mentions(contentType, "json") {
		return false
	}
	media, _, err := mime.ParseMediaType(contentType)
	return (err == nil || err == mime.ErrInvalidMediaParameter) &&
		(media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}
