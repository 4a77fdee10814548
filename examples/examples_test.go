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
	"businesskey": {
		"run 1: order A-1: applied\n", "run 1: order A-2: applied\n",
		"run 2: order A-1: applied earlier", "run 2: order A-2: applied earlier", "2 transfers, alice has 800",
	},
	"doubleclick": {
		"click: paid, see /transfers/1\n", "click: paid, see /transfers/1\n",
		"other tab: invoice 7 has been paid before", "transfers: 1\n",
	},
	"queue": {
		"m-1 201, applied\n", "m-1 consumer dies", "m-1 201, applied earlier", "m-2 201, applied\n", "m-3 404, not applied",
		"transfers: 2\n",
	},
	"downstream": {
		"shop: run 1", "shop: charged", "shop: dies", "shop: run 2", "shop: charged", "post office: mail 1 goes out",
		"app: 201, applied", "app: 201, applied", "runs 2, charges 1, mails 1",
	},
	"resume": {
		"payer: begins", "first payer killed: signal: killed", "payer: finds an unfinished payment", "payer: 201, applied",
		"bank: transfers: 1\n",
	},
	"json": {"transfer 1: 100 from alice to bob", "402 insufficient_funds"},
	"slog": {
		"level=WARN", "semel.attempt=1", `semel.verdict="no reply"`, "semel.outcome=unknown", "semel.wait=",
		"semel.attempt=2", "semel.status=503", "semel.verdict=transient", "semel.wait=1s",
		"level=INFO", "semel.attempt=3", "semel.verdict=replay", "semel.outcome=applied",
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
			require.NotContains(t, string(out), "secret", "a query may hold one")
			rest := string(out)
			for _, s := range want {
				_, after, found := strings.Cut(rest, s)
				require.True(t, found, "%q is missing, or not where it should be, in:\n%s", s, out)
				rest = after
			}
		})
	}
}
