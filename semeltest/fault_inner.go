package semeltest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Faults that the kit's own cases need.

// hangs lets the dial of the attempt take so long.
func hangs(attempt int, d time.Duration) Fault {
	return fault(attempt, func(t *trouble) { t.hang = d }, "the dial of attempt %d hangs", attempt)
}

// halfRequest cuts the request in the middle of its body.
func halfRequest(attempt int, end End) Fault {
	return fault(attempt, func(t *trouble) { t.half = end }, "attempt %d: %v in the middle of the request's body", attempt, end)
}

// overtaken lets a copy of the request arrive before the request itself.
func overtaken(attempt int, by time.Duration) Fault {
	return fault(attempt, func(t *trouble) {
		t.copies, t.hold = append(t.copies, 0), by
	}, "attempt %d is overtaken by a copy of itself by %v", attempt, by)
}

// garbled sends other bytes than the reply, after the server has done its work.
func garbled(attempt int, what string, change func([]byte) []byte) Fault {
	return fault(attempt, func(t *trouble) { t.garble = change }, "the reply to attempt %d is %s", attempt, what)
}

// replying answers in the server's place, with a header.
func replying(attempt, status int, body string, header ...string) Fault {
	return fault(attempt, func(t *trouble) {
		t.status, t.body, t.header = status, body, make(http.Header)
		for i := 0; i < len(header); i += 2 {
			t.header.Set(header[i], header[i+1])
		}
	}, "attempt %d is answered %d %v", attempt, status, header)
}

// earlyReply answers before the request's body is read.
func earlyReply(attempt, status int) Fault {
	return fault(attempt, func(t *trouble) { t.status, t.early, t.header = status, true, make(http.Header) },
		"attempt %d is answered %d before its body is read", attempt, status)
}

// dozes lets the server wait before it reads the request's body, and so before it says 100 Continue.
func dozes(attempt int, d time.Duration) Fault {
	return fault(attempt, func(t *trouble) { t.doze = d }, "the server reads the body of attempt %d after %v", attempt, d)
}

// goesAway ends the HTTP/2 connection of the attempt with a GOAWAY: it is finished, and later requests were not processed.
func goesAway(attempt int) Fault {
	return fault(attempt, func(t *trouble) { t.goAway = true }, "GOAWAY during attempt %d", attempt)
}

// refusing answers with a refusal of the guard.
func refusing(attempt int, rules *Rules, code string) Fault {
	status := rules.status(code)
	kind, body := "application/problem+json", fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"code":%q}`, code, status, code)
	if rules.Body != nil {
		kind, body = rules.Body(code)
	}
	return replying(attempt, status, body, "Content-Type", kind)
}

func instead(s string) func([]byte) []byte { return func([]byte) []byte { return []byte(s) } }

// badChunk frames the body in chunks, of which the first has no length.
func badChunk(b []byte) []byte {
	head, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
	head = bytes.Replace(head, []byte("Content-Length: "+strconv.Itoa(len(body))), []byte("Transfer-Encoding: chunked"), 1)
	return append(append(bytes.Clone(head), "\r\n\r\nzz\r\n"...), body...)
}

func doubled(b []byte) []byte { return append(bytes.Clone(b), b...) }
