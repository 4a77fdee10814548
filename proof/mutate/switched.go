package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// helpers are what the switches call. A change that is reached is written down once, if somebody wants to know.
const helpers = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantNumber, _ = strconv.Atoi(os.Getenv("MUTANT"))
	mutantTrace, _  = os.OpenFile(os.Getenv("MUTANT_TRACE"), os.O_APPEND|os.O_WRONLY, 0)
	mutantSeen      [%d]atomic.Bool
)

func mutantOn(id int) bool {
	if mutantTrace != nil && !mutantSeen[id].Swap(true) {
		mutantTrace.WriteString(strconv.Itoa(id) + "\n")
	}
	return id == mutantNumber
}

type mutantReal interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float64
}

func mutantMore[T mutantReal](on bool, n T) T {
	if on {
		return n + 1
	}
	return n
}

func mutantSum[T mutantReal](on bool, a, b T) T {
	if on {
		return a - b
	}
	return a + b
}

func mutantDifference[T mutantReal](on bool, a, b T) T {
	if on {
		return a + b
	}
	return a - b
}
`

// switched is the file's text with a switch for every change that has a form.
func (s *source) switched() string {
	type edit struct {
		at, order int
		text      string
	}
	var edits []edit
	for _, c := range s.changes {
		if len(c.forms) == 0 {
			continue
		}
		// At one place what is inside ends first, and what is outside begins first. Those inside have higher numbers.
		edits = append(edits, edit{c.start, c.id, c.forms[0].before}, edit{c.end, -c.id, c.forms[0].after})
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order
	})
	var b strings.Builder
	from := 0
	for _, e := range edits {
		s.copy(&b, from, e.at)
		b.WriteString(e.text)
		from = e.at
	}
	s.copy(&b, from, len(s.text))
	return b.String()
}

// copy copies a part of the source. It contains an operator that is replaced whole, or not at all.
func (s *source) copy(b *strings.Builder, from, to int) {
	for i := from; i < to; i++ {
		if c := s.ops[i]; c != nil && len(c.forms) > 0 {
			b.WriteString(c.forms[0].operator)
			continue
		}
		b.WriteByte(s.text[i])
	}
}

var complaint = regexp.MustCompile(`(?m)^(?:\./)?([\w./-]+\.go):(\d+)(?::\d+)?: (.*)$`)

// culprit is a change of a type that an error names.
var culprit = regexp.MustCompile(`mutant(?:More|Sum|Difference)[^(]*\(mutantOn\((\d+)\)`)

// compile writes the switched files of a folder, and gives each change that does not compile its next form, until all do.
func compile(folder, scratch, overlay string, sources []*source) error {
	for range 30 {
		for _, s := range sources {
			if err := os.WriteFile(filepath.Join(scratch, strings.ReplaceAll(s.name, "/", "_")), []byte(s.switched()), 0o600); err != nil {
				return err
			}
		}
		out, err := exec.Command("go", "build", "-gcflags=-e", "-overlay", overlay, "./"+folder).CombinedOutput()
		if err == nil {
			return nil
		}
		blamed, done := false, make(map[string]bool)
		for _, m := range complaint.FindAllStringSubmatch(string(out), -1) {
			if at := m[1] + ":" + m[2]; !done[at] {
				line, _ := strconv.Atoi(m[2])
				blamed, done[at] = blame(sources, filepath.Base(m[1]), line, m[3]) || blamed, true
			}
		}
		if !blamed {
			return fmt.Errorf("%s does not compile: %s", folder, bytes.TrimSpace(out))
		}
	}
	return fmt.Errorf("%s does not compile", folder)
}

// blame gives the changes that an error can come their next form: those that it names, else those that begin in its line and depend on a type, else all that begin there, else the smallest that goes over it.
func blame(sources []*source, file string, line int, message string) bool {
	named := make(map[string]bool)
	for _, m := range culprit.FindAllStringSubmatch(message, -1) {
		named[m[1]] = true
	}
	var sure, typed, others, around []*change
	for _, s := range sources {
		if strings.ReplaceAll(s.name, "/", "_") != file && filepath.Base(s.name) != file {
			continue
		}
		for _, c := range s.changes {
			switch {
			case len(c.forms) == 0 || line < c.line || line > c.last:
			case named[strconv.Itoa(c.id)]:
				sure = append(sure, c)
			case c.line != line:
				around = append(around, c)
			case strings.HasPrefix(c.forms[0].before, "mutant"):
				typed = append(typed, c)
			default:
				others = append(others, c)
			}
		}
	}
	if len(around) > 1 {
		around = []*change{slices.MinFunc(around, func(a, b *change) int { return a.end - a.start - b.end + b.start })}
	}
	for _, some := range [][]*change{sure, typed, others, around} {
		for _, c := range some {
			c.forms = c.forms[1:]
		}
		if len(some) > 0 {
			return true
		}
	}
	return false
}
