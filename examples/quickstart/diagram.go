package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

const width = 46 // between the two lines

// A diagram draws a sequence: the client's end on the left, the bank's on the right, time downwards.
type diagram struct{ mu *sync.Mutex }

func newDiagram(title string) diagram {
	fmt.Printf("\n%s\n\n  client %s bank\n", title, strings.Repeat(" ", width-5))
	return diagram{new(sync.Mutex)}
}

func (d diagram) line(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Printf("    %s\n", text)
}

// arrow fills the space between the lines.
func (d diagram) arrow(left, fill, right, format string, a ...any) {
	left += " " + fmt.Sprintf(format, a...) + " "
	d.line("│" + left + strings.Repeat(fill, width-len([]rune(left+right))) + right + "│")
}

func (d diagram) request(r *http.Request) {
	key := "no key"
	if k := r.Header.Get("Idempotency-Key"); k != "" {
		key = fmt.Sprintf("key %.8s…", k)
	}
	d.arrow("──", "─", "▶", "%s %s, %s", r.Method, r.URL.Path, key)
}

func (d diagram) reply(r *http.Response) {
	what := ""
	if r.Header.Get("Idempotent-Replayed") == "true" {
		what = ", the stored answer"
	}
	d.arrow("◀─", "─", "─", "%d%s", r.StatusCode, what)
}

func (d diagram) lost(status int)   { d.arrow("  ╳", "─", "─", "%d is lost on the way", status) }
func (d diagram) unsaid(status int) { d.arrow("   ", " ", "╳", "%d is never sent", status) }

func (d diagram) server(format string, a ...any) {
	d.line(fmt.Sprintf("│%*s│ ", width, "") + fmt.Sprintf(format, a...))
}

// client writes as many lines as the text needs.
func (d diagram) client(format string, a ...any) {
	line := "│"
	for _, word := range strings.Fields(fmt.Sprintf(format, a...)) {
		if len(line)+len(word) > 2*width {
			d.line(line)
			line = "│"
		}
		line += " " + word
	}
	d.line(line)
}

func (d diagram) note(text string) { d.line("┊ " + text) }

func (d diagram) end(format string, a ...any) { fmt.Printf("\n  "+format+"\n", a...) }
