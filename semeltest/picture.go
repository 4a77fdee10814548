package semeltest

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A row is one line of a sequence diagram: the client left, the server right, and what travels between them.
type row struct {
	at          time.Duration
	left, right string
	way         way
	lost        bool // it does not get there
	bad         bool // to be seen first
}

type way int

const (
	nowhere way = iota
	toServer
	toClient
)

// What is longer than this is drawn without its middle.
const drawnEvents, drawnEnd = 300, 60

// drawn are the events that a picture shows, in two parts, and how many are left out between them.
func (h *History) drawn() (head, tail []Event, left int) {
	events := h.Events()
	if len(events) <= drawnEvents {
		return events, nil, 0
	}
	end := len(events) - drawnEnd
	return events[:drawnEvents-drawnEnd], events[end:], end - (drawnEvents - drawnEnd)
}

// lines are the rows of a picture.
func (h *History) lines() []row {
	head, tail, left := h.drawn()
	all := rows(head)
	if left > 0 {
		all = append(all, row{at: tail[0].At, left: fmt.Sprintf("… %d events are left out …", left)})
	}
	return append(all, rows(tail)...)
}

// rows turns events into lines. A send and its arrival share one, if nothing lies between them; so do an answer and its
// reply.
func rows(events []Event) (rows []row) {
	met := make([]bool, len(events))
	for i, e := range events {
		if met[i] {
			continue
		}
		switch e.Kind {
		case onCall:
			rows = append(rows, row{at: e.At, left: e.Detail})
		case onBelief:
			rows = append(rows, row{at: e.At, left: "says: " + e.Detail})
		case onAttempt:
			r := row{at: e.At, left: label(e)}
			if j := next(events, i, e, onSend); j == i+1 { // nothing came between: one line for both
				met[j] = true
				rows = append(rows, sent(events, met, j, r))
			} else {
				rows = append(rows, r)
			}
		case onSend:
			left := "sent"
			if e.Copy {
				left = label(e)
			}
			rows = append(rows, sent(events, met, i, row{at: e.At, left: join(left, e.Detail)}))
		case onArrival:
			rows = append(rows, row{at: e.At, right: "arrives: " + whose(e), way: toServer})
		case onPoint:
			rows = visited(rows, e, i > 0 && events[i-1].Kind == onPoint && same(events[i-1], e))
		case onEffect:
			rows = append(rows, row{at: e.At, right: "★ EFFECT of key " + brief(e.Key), bad: true})
		case onAnswer:
			rows = append(rows, replied(events, met, i))
		case onCut:
			rows = append(rows, row{at: e.At, right: "✗ " + e.Detail + ": " + whose(e), way: toClient, lost: true, bad: true})
		case onReply:
			rows = append(rows, row{at: e.At, left: replyLabel(e), way: toClient})
		case onFailure:
			rows = append(rows, row{at: e.At, left: "✗ " + e.Detail, bad: true})
		}
	}
	return rows
}

// visited adds a point, to the line of the point before if that is the same attempt's and time's.
func visited(rows []row, e Event, again bool) []row {
	if last := len(rows) - 1; again && rows[last].at == e.At {
		rows[last].right += " · " + e.Detail
		return rows
	}
	return append(rows, row{at: e.At, right: "· " + e.Detail})
}

func same(a, b Event) bool { return a.Key == b.Key && a.N == b.N && a.Copy == b.Copy }

// sent is the line of a send: with its arrival, on its way, or lost.
func sent(events []Event, met []bool, i int, r row) row {
	e := events[i]
	r.way = toServer
	j := next(events, i, e, onArrival)
	switch {
	case j < 0:
		r.lost, r.bad = true, true
	case events[j].At == e.At || events[j].At-e.At < 20*time.Millisecond && j == i+1:
		met[j] = true
		r.right = "arrives: " + events[j].Detail
	}
	return r
}

// replied is the line of an answer: with its reply, on its way, or lost.
func replied(events []Event, met []bool, i int) row {
	e := events[i]
	r := row{at: e.At, right: strings.TrimSpace(fmt.Sprintf("answers %s %s", status(e.Status), e.Detail)), way: toClient}
	j := next(events, i, e, onReply)
	switch {
	case e.Copy:
		r.left = "(for nobody)"
	case j < 0:
		r.lost, r.bad = true, true
	case j == i+1:
		met[j] = true
		r.left = replyLabel(events[j])
	}
	return r
}

// next finds the event of this kind that belongs to the same attempt, before another event of e's own kind.
func next(events []Event, i int, e Event, k Kind) int {
	for j := i + 1; j < len(events); j++ {
		f := events[j]
		if !same(e, f) {
			continue
		}
		if f.Kind == k {
			return j
		}
		if f.Kind == e.Kind {
			return -1
		}
	}
	return -1
}

func label(e Event) string {
	s := fmt.Sprintf("attempt %d of key %s", e.N, brief(e.Key))
	if e.Copy {
		s = fmt.Sprintf("copy of attempt %d, key %s", e.N, brief(e.Key))
	}
	return join(s, e.Detail)
}

func whose(e Event) string {
	s := fmt.Sprintf("attempt %d of %s", e.N, brief(e.Key))
	if e.N == 0 {
		s = "a stranger's request"
	}
	if e.Copy {
		s = "copy of " + s
	}
	return s
}

func replyLabel(e Event) string { return join(status(e.Status), e.Detail) }

func status(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprint(code)
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}

// brief shortens a key.
func brief(key string) string {
	if key == "" {
		return "(none)"
	}
	key = strings.Trim(key, `"`)
	if len(key) > 9 {
		return key[:4] + "…" + key[len(key)-3:]
	}
	return key
}

// String draws the history as a sequence diagram of at most 100 columns: the client left, the server right.
func (h *History) String() string {
	const left, middle, right = 37, 12, 36
	var b strings.Builder
	line := func(at, l, m, r string) {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%9s %s│%s│ %s", at, fit(l, left), m, fit(r, right)), " "))
	}
	line("", "client", strings.Repeat(" ", middle), "server")
	last := time.Duration(-1)
	for _, r := range h.lines() {
		at := ""
		if r.at != last {
			at, last = clock(r.at), r.at
		}
		l, rt := r.left, r.right
		line(at, cutOff(&l, left), arrow(r, middle), cutOff(&rt, right))
		for l != "" || rt != "" {
			line("", cutOff(&l, left), strings.Repeat(" ", middle), cutOff(&rt, right))
		}
	}
	return b.String()
}

// cutOff takes what fits into a line from s, at a space if there is one.
func cutOff(s *string, width int) string {
	if utf8.RuneCountInString(*s) <= width {
		line := *s
		*s = ""
		return line
	}
	runes := []rune(*s)
	at := width
	for i := width; i > width/2; i-- {
		if runes[i] == ' ' {
			at = i
			break
		}
	}
	line := string(runes[:at])
	*s = "  " + strings.TrimLeft(string(runes[at:]), " ")
	return line
}

func fit(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func arrow(r row, width int) string {
	bar := func(n int) string { return strings.Repeat("─", n) }
	switch {
	case r.way == toServer && r.lost:
		return bar(width-4) + "✗   "
	case r.way == toServer:
		return bar(width-1) + "▶"
	case r.way == toClient && r.lost:
		return "   ✗" + bar(width-4)
	case r.way == toClient:
		return "◀" + bar(width-1)
	}
	return strings.Repeat(" ", width)
}

// clock writes a time since the beginning in at most nine columns.
func clock(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < time.Minute:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
