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
	"strings"
	"time"
)

// A laboratory runs tests against changed sources, by the go command's overlay.
type laboratory struct {
	scratch  string
	stages   map[string][]stage       // by folder
	patience map[string]time.Duration // of each stage, by its name
}

// A stage is a test binary of some folder, and which of its tests run.
type stage struct {
	name, folder string
	args         []string
}

// What the tests of a folder cannot see of a change is left out: they read the sources, or take seconds for what others
// look at too.
var (
	client = stage{"the client's tests", ".", []string{"-test.skip", "^(TestREADMECompiles|TestArrows|TestClientAndServerDoNotKnow|TestEmbedding|TestFilesAnd|TestNoTestIsSkipped|TestThePublicFace|TestEvery.*Documented)"}}
	server = stage{"the server's tests", "testserver", nil}
	kit    = stage{"the kit's tests", "semeltest", nil}
	worlds = stage{"worlds and schedules", "proof", []string{"-test.run", "^(TestWorlds|TestEverySchedule|TestHTTP2.*|TestAReply.*|TestKept.*|TestProtocol.*|TestMutantsBy.*|TestWhat.*|TestACancelled.*)$", "-worlds", "500"}}
)

// A verdict says who noticed a change.
type verdict struct {
	compiles bool
	stage    string // "" if nobody noticed
	test     string // which was the first to fail
	late     bool   // the tests did not end
}

// clean makes sure that nothing is noticed where nothing was changed, and sees how long that takes.
func (l *laboratory) clean() error {
	l.patience = make(map[string]time.Duration)
	for _, stages := range l.stages {
		for _, s := range stages {
			if _, known := l.patience[s.name]; known {
				continue
			}
			l.patience[s.name] = 5 * time.Minute
			began := time.Now()
			v, err := l.stage("", s)
			if err != nil {
				return err
			}
			if !v.compiles || v.stage != "" {
				return fmt.Errorf("%s fail without a change: %s", s.name, v.test)
			}
			l.patience[s.name] = 20*time.Second + 3*time.Since(began)
		}
	}
	return nil
}

// notice puts a change in, and returns who has noticed.
func (l *laboratory) notice(c change) (verdict, error) {
	overlay, err := l.overlay(c)
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	for _, s := range l.stages[filepath.Dir(c.file)] {
		if v, err = l.stage(overlay, s); err != nil || !v.compiles || v.stage != "" {
			break
		}
	}
	return v, err
}

func (l *laboratory) overlay(c change) (string, error) {
	src, err := os.ReadFile(c.file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(l.scratch, "changed.go")
	text := string(src[:c.start]) + c.new + string(src[c.end:])
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}
	file, err := filepath.Abs(c.file)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(l.scratch, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*|fatal error: .*)`)

// stage builds a stage's tests with a change, and runs them until one fails. What takes too long has failed.
func (l *laboratory) stage(overlay string, s stage) (verdict, error) {
	binary := filepath.Join(l.scratch, "tests")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if out, late, err := run(10*time.Minute, ".", "go", append(args, "./"+s.folder)...); err != nil || late {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return verdict{test: out}, nil
		}
		return verdict{}, errors.Join(err, errors.New(out))
	}
	patience := l.patience[s.name]
	args = append([]string{"-test.failfast", "-test.timeout", patience.String()}, s.args...)
	out, late, err := run(patience+10*time.Second, s.folder, binary, args...)
	if err == nil && !late {
		return verdict{compiles: true}, nil
	}
	v := verdict{compiles: true, stage: s.name, late: late || strings.Contains(out, "panic: test timed out after"), test: "it did not end"}
	if m := failed.FindStringSubmatch(out); m != nil && !v.late {
		v.test = brief(m[1] + m[2])
	}
	return v, nil
}

func run(limit time.Duration, dir, name string, args ...string) (out string, late bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), ctx.Err() != nil, err
}
