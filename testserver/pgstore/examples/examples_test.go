// Package examples_test runs every example against a real Postgres and reads what it prints.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// What each example must print, in this order.
var examples = map[string][]string{
	"twoservers": {"server 1: no reply", "server 2: 201", "client: 201 Created, applied, replayed: true", "transfers under this key: 1, alice has 900"},
	"consumer": {"m-1 stock done", "m-1 mail done", "m-2 stock done", "m-2 mail done",
		"m-1 stock was done", "m-1 mail was done", "m-2 stock was done", "m-2 mail was done", "lamps: 3 mails: 2"},
}

func TestEveryExampleKeepsItsPromise(t *testing.T) {
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	folders, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.Len(t, examples, len(folders), "each folder is an example, and each has its row")
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			dsn := pgtest.DSN(t)
			for range 2 { // the second time, all is there already
				cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name))
				cmd.Env = append(os.Environ(), pgtest.EnvURL+"="+dsn)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
				rest := string(out)
				for _, s := range want {
					_, after, found := strings.Cut(rest, s)
					require.True(t, found, "%q is missing, or not where it should be, in:\n%s", s, out)
					rest = after
				}
			}
		})
	}
}
