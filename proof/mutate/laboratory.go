package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A laboratory runs tests against changed sources, by the go command's overlay.
type laboratory struct {
	scratch string
	quick   bool
}

// noticedBy says who noticed a change.
type noticedBy int

const (
	nobody noticedBy = iota
	nobodyCompiles
	theWorlds
	theTests
)

// patience is how long one run of tests may take. A change that makes it longer has been noticed.
const patience = 2 * time.Minute

// worlds are the tests of package proof that a change meets first. They take a few seconds.
var worlds = []string{"./proof", "-run", "^(TestWorlds|TestEverySchedule)$/^(two_callers.*)?$", "-worlds", "500"}

// clean makes sure that nothing is noticed where nothing was changed.
func (l *laboratory) clean() error {
	if ok, out, err := l.test("", worlds...); err != nil || !ok {
		return errors.Join(errors.New("the tests fail without a change:\n"+out), err)
	}
	return nil
}

// notice puts a change in, and returns who has noticed.
func (l *laboratory) notice(c change) (noticedBy, error) {
	overlay, err := l.overlay(c)
	if err != nil {
		return nobody, err
	}
	pkg := "./" + filepath.Dir(c.file)
	if ok, _, err := l.run(overlay, "build", pkg); err != nil || !ok {
		return nobodyCompiles, err
	}
	if ok, _, err := l.test(overlay, worlds...); err != nil || !ok {
		return theWorlds, err
	}
	if l.quick {
		return nobody, nil
	}
	for _, p := range []string{pkg, "."} {
		if ok, _, err := l.test(overlay, p); err != nil || !ok {
			return theTests, err
		}
	}
	return nobody, nil
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

func (l *laboratory) test(overlay string, args ...string) (ok bool, out string, err error) {
	return l.run(overlay, "test", append([]string{"-count=1", "-vet=off", "-ldflags=-s -w", "-failfast", fmt.Sprintf("-timeout=%v", patience)}, args...)...)
}

// run runs the go command. What takes too long has failed.
func (l *laboratory) run(overlay, verb string, args ...string) (ok bool, out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	args = append([]string{verb}, args...)
	if overlay != "" {
		args = append([]string{verb, "-overlay", overlay}, args[1:]...)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = 5 * time.Second
	text, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) || ctx.Err() != nil {
		return false, strings.TrimSpace(string(text)), nil
	}
	return err == nil, string(text), err
}
