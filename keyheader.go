package semel

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const maxKey = 255 // bytes; what most APIs take

// findKey returns the key that the request brought under this header name, in any casing and under any map key; "" if it
// brought none. Values are read as net/http would write them, without the spaces around. Several lines of one value are
// one key; several values, or an empty one, are an error, because exactly one value must go out.
func findKey(h http.Header, name string, quoted bool) (string, error) {
	if len(h) == 0 {
		return "", nil
	}
	var found string
	for k, lines := range h {
		if len(k) != len(name) || !strings.EqualFold(k, name) {
			continue
		}
		for _, line := range lines {
			key, err := unquoteKey(strings.Trim(line, " \t"), quoted)
			if err != nil {
				return "", fmt.Errorf("header %s: %w", name, err)
			}
			if found != "" && found != key {
				return "", fmt.Errorf("header %s has different values, and exactly one key may go out", name)
			}
			found = key
		}
	}
	return found, nil
}

// dropKey removes the header under every casing.
func dropKey(h http.Header, name string) {
	for k := range h {
		if len(k) == len(name) && strings.EqualFold(k, name) {
			delete(h, k)
		}
	}
}

// validKey is the rule of a dialect that brings none: 1 to 255 visible ASCII characters, so that no hop trims or splits
// the key. A quoted one also has no quote and no backslash: RFC 8941 would escape them, and a server that only strips the
// quotes would remember another key.
func validKey(key string, quoted bool) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKey:
		return fmt.Errorf("the key has %d bytes, more than %d", len(key), maxKey)
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || quoted && (c == '"' || c == '\\') {
			return fmt.Errorf("the key has %q at byte %d", c, i)
		}
	}
	return nil
}

// quoteKey returns the key as it is written in the header: bare, or as a string of RFC 8941 section 3.3.3.
func quoteKey(key string, quoted bool) string {
	if !quoted {
		return key
	}
	if strings.ContainsAny(key, `"\`) {
		key = strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key)
	}
	return `"` + key + `"`
}

// unquoteKey reads a header line back. Where keys are quoted a bare line is the same key, as callers write either. Where
// they are not, quotes are part of the key: it goes out as the caller wrote it.
func unquoteKey(line string, quoted bool) (string, error) {
	if quoted && strings.HasPrefix(line, `"`) {
		return unescape(line[1:])
	}
	if line == "" {
		return "", errors.New("the key is empty")
	}
	return line, nil
}

// unescape reads an RFC 8941 string after its opening quote; nothing may follow the closing one.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && i == len(s)-1 && i == 0:
			return "", errors.New("the key is empty")
		case c == '"' && i == len(s)-1:
			return b.String(), nil
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case c == '"' || c == '\\' || c < ' ' || c > '~':
			return "", fmt.Errorf("the quoted key has %q at byte %d", c, i+1)
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("the quoted key does not end")
}
