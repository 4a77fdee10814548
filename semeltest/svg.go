package semeltest

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	svgLine  = 22  // height of a row
	svgLeft  = 560 // the client's line
	svgRight = 760 // the server's line
	svgWidth = 1400
)

// SVG draws the history as one self-contained picture.
func (h *History) SVG(title string) string {
	var body strings.Builder
	y := 70
	last := time.Duration(-1)
	for _, r := range h.lines() {
		y += svgLine
		if r.at != last {
			last = r.at
			fmt.Fprintf(&body, `<text class="time" x="70" y="%d">%s</text>`+"\n", y+4, clock(r.at))
		}
		class := ""
		if r.bad {
			class = ` class="bad"`
		}
		if r.left != "" {
			fmt.Fprintf(&body, `<text%s text-anchor="end" x="%d" y="%d">%s</text>`+"\n", class, svgLeft-12, y+4, html.EscapeString(r.left))
		}
		if r.right != "" {
			fmt.Fprintf(&body, `<text%s x="%d" y="%d">%s</text>`+"\n", class, svgRight+12, y+4, html.EscapeString(r.right))
		}
		svgArrow(&body, r, y)
	}
	y += 2 * svgLine
	return fmt.Sprintf(svgFrame, svgWidth, y, svgWidth, y, html.EscapeString(title), svgLeft, svgRight, svgLeft, svgLeft, y-svgLine, svgRight, svgRight, y-svgLine) +
		body.String() + "</svg>\n"
}

func svgArrow(b *strings.Builder, r row, y int) {
	from, to := svgLeft, svgRight
	if r.way == toClient {
		from, to = to, from
	}
	class, head := "sent", ` marker-end="url(#head)"`
	if r.lost {
		to = (from*2 + to*3) / 5
		class, head = "lost", ""
	}
	if r.way == nowhere {
		return
	}
	fmt.Fprintf(b, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"%s/>`+"\n", class, from, y, to, y, head)
	if r.lost {
		fmt.Fprintf(b, `<text class="bad" text-anchor="middle" x="%d" y="%d">✗</text>`+"\n", to, y+5)
	}
}

const svgFrame = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">
<style>
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #24292f }
.title { font-size: 15px; font-weight: bold } .time { text-anchor: end; fill: #6e7781 } .bad { fill: #b3261e }
.life { stroke: #8c959f } .sent { stroke: #24292f; stroke-width: 1.4 } .lost { stroke: #b3261e; stroke-width: 1.4; stroke-dasharray: 5 3 }
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 10 5 0 10z" fill="#24292f"/></marker></defs>
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text class="title" x="20" y="28">%s</text>
<text class="title" text-anchor="middle" x="%d" y="62">client</text><text class="title" text-anchor="middle" x="%d" y="62">server</text>
<line class="life" x1="%d" y1="70" x2="%d" y2="%d"/><line class="life" x1="%d" y1="70" x2="%d" y2="%d"/>
`

// draw writes the picture of a case into the directory.
func draw(dir, name string, h *History) error {
	if dir == "" || len(h.Events()) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("semeltest: the picture cannot be written: %w", err)
	}
	file := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| ,;()`, r) {
			return '-'
		}
		return r
	}, name) + ".svg"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(h.SVG(name)), 0o644); err != nil {
		return fmt.Errorf("semeltest: the picture cannot be written: %w", err)
	}
	return nil
}
