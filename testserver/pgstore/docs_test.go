package pgstore

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTableOfBugsNamesTestsThatExist: each number of servers.md has its row, and each row a test or a reason.
func TestTheTableOfBugsNamesTestsThatExist(t *testing.T) {
	doc, err := os.ReadFile("../../docs/postgres-faults.md")
	require.NoError(t, err)
	sources := map[string]string{"testserver": "..", "pgstore": ".", "store": "../../semeltest"}
	for name, dir := range sources {
		sources[name] = sourceOf(t, dir)
	}
	rows := regexp.MustCompile(`(?m)^\| (B\d+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(string(doc), -1)
	quoted := regexp.MustCompile("`[^`]+`")
	for n := 1; n <= 50; n++ {
		require.LessOrEqual(t, n, len(rows), "B%d has no row", n)
		number, cell := rows[n-1][1], rows[n-1][2]
		require.Equal(t, fmt.Sprint("B", n), number)
		if !strings.Contains(cell, "`") && !strings.Contains(cell, "cannot occur") && !strings.Contains(cell, "no such number") {
			t.Errorf("%s names no test, and does not say why", number)
		}
		for _, part := range strings.Split(cell, "; ") {
			where, _, _ := strings.Cut(part, " ")
			for _, name := range quoted.FindAllString(part, -1) {
				name = strings.Trim(name, "`")
				is := "func " + name + "("
				if where == "store" {
					is = `"` + name + `"`
				}
				if !strings.Contains(sources[where], is) {
					t.Errorf("%s: there is no %s in %s", number, name, where)
				}
			}
		}
	}
	require.Len(t, rows, 50)
}

func sourceOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(source)
	}
	return all.String()
}
