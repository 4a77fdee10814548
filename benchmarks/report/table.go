package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A table is printed as Markdown, first column to the left, the others to the right.
type table []string

func (t table) head(title string) {
	fmt.Fprintf(out, "\n### %s\n\n", title)
	t.row(t...)
	fmt.Fprintln(out, "|---"+strings.Repeat("|---:", len(t)-1)+"|")
}

func (t table) row(cells ...string) { fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |") }

// num rounds to a whole number, small ones to a tenth, and groups thousands.
func num(f float64) string {
	if tenth := math.Round(f*10) / 10; math.Abs(f) < 10 && tenth != math.Trunc(tenth) {
		return strconv.FormatFloat(tenth, 'f', 1, 64)
	}
	sign, digits := "", strconv.FormatFloat(math.Abs(f), 'f', 0, 64)
	if math.Round(f) < 0 {
		sign = "-"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func plus(f float64) string {
	if f < 0 {
		return num(f)
	}
	return "+" + num(f)
}

func times(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) + "×" }

// A bar is a limit, what was measured, and whether it holds.
type bar struct {
	rule     string
	measured string
	holds    bool
}

func atMost(rule string, measured, limit float64, show func(float64) string) bar {
	return bar{rule + " ≤ " + show(limit), show(measured), measured <= limit}
}

func printBars(bars []bar) {
	t := table{"bar", "measured", "holds"}
	t.head("bars")
	for _, b := range bars {
		holds := "yes"
		if !b.holds {
			holds = "**no**"
		}
		t.row(b.rule, b.measured, holds)
	}
}
