package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A laboratory has the tests of every stage, built once with all changes in them and switched off.
type laboratory struct {
	scratch string
	changes []*change // by number, from 1
	stages  []*stage
}

// A stage is some folder's tests.
type stage struct {
	name, folder string
	tests, skip  *regexp.Regexp // which of them take part
	args         []string

	binary string
	all    []test
}

// A test is one that passes without a change, with the changes that it reaches.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool
}

// newStages are the tests that changes meet. Those that read the sources are left out, for they cannot see a change.
func newStages() []*stage {
	any, none := regexp.MustCompile("^(Test|Example|Fuzz)"), regexp.MustCompile("^$")
	return []*stage{
		{name: "client", folder: ".", tests: any, skip: regexp.MustCompile("^(TestREADMECompiles|TestArrows|TestClientAndServerDoNotKnow|TestEmbedding|TestFilesAnd|TestNoTestIsSkipped|TestThePublicFace|TestEvery.*Documented)")},
		{name: "server", folder: "testserver", tests: any, skip: none},
		{name: "worlds", folder: "proof", tests: regexp.MustCompile("^Test(Worlds|EverySchedule|WhatCallers.*)$"), skip: none, args: []string{"-worlds", "500"}},
		{name: "kit", folder: "semeltest", tests: any, skip: none},
	}
}

// prepare builds the tests and sees what each of them reaches.
func (l *laboratory) prepare() error {
	var sources []*source
	replace := make(map[string]string)
	for _, folder := range []string{".", "testserver"} {
		here, err := l.read(folder, replace)
		if err != nil {
			return err
		}
		sources = append(sources, here...)
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(l.scratch, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		return err
	}
	for _, folder := range []string{".", "testserver"} {
		file := filepath.Join(l.scratch, folder+"_mutant.go")
		name := map[string]string{".": "semel", "testserver": "testserver"}[folder]
		if err := os.WriteFile(file, fmt.Appendf(nil, helpers, name, len(l.changes)+1), 0o600); err != nil {
			return err
		}
		var here []*source
		for _, s := range sources {
			if filepath.Dir(s.name) == folder {
				here = append(here, s)
			}
		}
		if err := compile(folder, l.scratch, overlay, here); err != nil {
			return err
		}
	}
	for _, s := range l.stages {
		if err := l.build(s, overlay); err != nil {
			return err
		}
	}
	return nil
}

// read reads the files of a folder, and says what replaces them.
func (l *laboratory) read(folder string, replace map[string]string) (sources []*source, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	replace[filepath.Join(root, folder, "mutant.go")] = filepath.Join(l.scratch, folder+"_mutant.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		n := len(l.changes)
		s, err := read(name, func() int { n++; return n })
		if err != nil {
			return nil, err
		}
		l.changes = append(l.changes, s.changes...)
		replace[filepath.Join(root, name)] = filepath.Join(l.scratch, strings.ReplaceAll(name, "/", "_"))
		sources = append(sources, s)
	}
	return sources, nil
}

// build builds a stage's tests and runs each of them alone, without a change.
func (l *laboratory) build(s *stage, overlay string) error {
	s.binary = filepath.Join(l.scratch, s.name+".tests")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, "./"+s.folder).CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	list, _, err := s.run(time.Minute, nil, "-test.list", ".")
	if err != nil {
		return errors.Join(err, errors.New(list))
	}
	for _, name := range strings.Fields(list) {
		if !s.tests.MatchString(name) || s.skip.MatchString(name) {
			continue
		}
		trace := filepath.Join(l.scratch, "trace")
		if err := os.WriteFile(trace, nil, 0o600); err != nil {
			return err
		}
		began := time.Now()
		if out, late, err := s.run(5*time.Minute, []string{"MUTANT_TRACE=" + trace}, append(s.args, "-test.run", "^"+name+"$")...); err != nil || late {
			return fmt.Errorf("%s fails without a change: %w\n%s", name, err, out)
		}
		t := test{name: name, took: time.Since(began), reaches: make(map[int]bool)}
		data, err := os.ReadFile(trace)
		if err != nil {
			return err
		}
		for _, id := range strings.Fields(string(data)) {
			n, _ := strconv.Atoi(id)
			t.reaches[n] = true
		}
		s.all = append(s.all, t)
	}
	return nil
}

func (s *stage) run(limit time.Duration, env []string, args ...string) (out string, late bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir, cmd.WaitDelay, cmd.Env = s.folder, 5*time.Second, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), ctx.Err() != nil, err
}

// A verdict says who noticed a change.
type verdict struct {
	reached bool
	stage   string // "" if nobody noticed
	test    string // which was the first to fail
	late    bool   // the tests did not end
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^((?:panic|fatal error): .*)`)

// notice lets a change meet every test that reaches it, the short ones first, until one fails or takes too long.
func (l *laboratory) notice(c *change) (v verdict) {
	for _, long := range []bool{false, true} {
		for _, s := range l.order(c) {
			var names []string
			var all time.Duration
			for _, t := range s.all {
				if t.reaches[c.id] && (t.took > time.Second) == long {
					names, all = append(names, t.name), all+t.took
				}
			}
			if len(names) == 0 {
				continue
			}
			v.reached = true
			limit := 15*time.Second + 3*all
			args := append([]string{"-test.failfast", "-test.timeout", limit.String(), "-test.run", "^(" + strings.Join(names, "|") + ")$"}, s.args...)
			out, late, err := s.run(limit+5*time.Second, []string{fmt.Sprintf("MUTANT=%d", c.id)}, args...)
			if err == nil && !late {
				continue
			}
			v.stage, v.test, v.late = s.name, "?", late || strings.Contains(out, "panic: test timed out after")
			if m := failed.FindStringSubmatch(out); m != nil {
				v.test = brief(m[1] + m[2])
			}
			return v
		}
	}
	return v
}

// order begins with the tests of the change's own folder.
func (l *laboratory) order(c *change) []*stage {
	var own, others []*stage
	for _, s := range l.stages {
		if s.folder == filepath.Dir(c.file) {
			own = append(own, s)
		} else {
			others = append(others, s)
		}
	}
	return append(own, others...)
}
