// Package examples_test runs every example and reads what it prints.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What each example must print, in this order. An example that finds its own result wrong exits with an error.
var examples = map[string][]string{
	"quickstart": {
		"201 is lost on the way", "EOF: try again", "alice has 800, bob has 1200: the money moved twice",
		"201 is lost on the way", "under the same key", "201, the stored answer", "replay, so applied",
		"alice has 900, bob has 1100: the money moved once",
		"201 is never sent", "unknown after 2 attempts", "201, the stored answer", "201 Created: applied",
		"alice has 900, bob has 1100: the money moved once",
	},
}

func TestEveryExampleKeepsItsPromise(t *testing.T) {
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./...").CombinedOutput()
	require.NoError(t, err, "%s", out)

	folders, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.Len(t, examples, len(folders), "each folder is an example, and each has its row")

	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, name))
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			rest := string(out)
			for _, s := range want {
				_, after, found := strings.Cut(rest, s)
				require.True(t, found, "%q is missing, or not where it should be, in:\n%s", s, out)
				rest = after
			}
		})
	}
}
