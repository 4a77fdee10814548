package semel

import (
	"net/http"
	"strings"
	"time"
)

// Headers that carry a wait in milliseconds, in the order in which they are believed: OpenAI, Anthropic, Mollie and our
// own server; Azure; AWS.
var millisecondHeaders = [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"}

// retryAfter returns how long the server asks to wait, never negative, and whether it asks at all. A millisecond header
// wins over Retry-After (RFC 9110, section 10.2.3), being the same wait told more exactly. Of several lines the first one
// that can be read counts; signs, fractions, lists and other text cannot be. A number that is too large is Forever, so it
// exceeds every limit instead of wrapping. A number is always a duration: one that is meant as Unix time is a wait of
// decades, to be refused.
//
// A date is measured against the reply's own Date, so that a wrong clock on either side does no harm, and only without one
// against now. One that is past asks for no wait.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, name := range millisecondHeaders {
		for _, line := range h[name] {
			if wait, ok = digits(strings.Trim(line, " \t"), time.Millisecond); ok {
				return wait, true
			}
		}
	}
	for _, line := range h["Retry-After"] {
		line = strings.Trim(line, " \t")
		if wait, ok = digits(line, time.Second); ok {
			return wait, true
		}
		if at, err := http.ParseTime(line); err == nil {
			return max(0, at.Sub(replyDate(h, now))), true // Sub saturates
		}
	}
	return 0, false
}

// replyDate returns the reply's Date if it can be read, else now.
func replyDate(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(strings.Trim(h.Get("Date"), " \t")); err == nil {
		return date
	}
	return now
}

// digits reads a whole number of units and stops at Forever.
func digits(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	most := int64(Forever / unit)
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if d := int64(s[i] - '0'); n > (most-d)/10 {
			n = most + 1 // and no longer grows
		} else {
			n = n*10 + d
		}
	}
	if n > most {
		return Forever, true
	}
	return time.Duration(n) * unit, true
}
