package testserver

import (
	"errors"
	"net/http"
	"strings"
)

const maxKey = 255 // bytes, quotes and escapes not counted

var errNoKey = errors.New("the request has no key")

// requestKey returns the key of the request. A structured field string (RFC 8941 section 3.3.3) and the bare form of the
// same characters are the same key. A bare comma is refused: it is how an intermediary joins two fields.
func requestKey(h http.Header, name string) (string, error) {
	lines := h.Values(name)
	switch {
	case len(lines) == 0:
		return "", errNoKey
	case len(lines) > 1:
		return "", errors.New("the request has more than one " + name + " field")
	}
	key, err := parseKey(strings.Trim(lines[0], " \t"))
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", errors.New("the key is empty")
	case len(key) > maxKey:
		return "", errors.New("the key is longer than 255 bytes")
	}
	return key, nil
}

func parseKey(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		for i := range len(s) {
			if s[i] <= ' ' || s[i] > '~' || s[i] == ',' {
				return "", errors.New("an unquoted key consists of visible ASCII characters without a comma")
			}
		}
		return s, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && i == len(s)-1:
			return b.String(), nil
		case c == '"':
			return "", errors.New("something follows the quoted key")
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case c == '\\' || c < ' ' || c > '~':
			return "", errors.New("a quoted key consists of printable ASCII characters and escapes only quotes and backslashes")
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("the quoted key has no end")
}
