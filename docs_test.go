package semel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testsByName returns the source of every test of the repository, with its comment.
func testsByName(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, src, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(strings.ToLower(fn.Name.Name), "test") {
				continue
			}
			from := fn.Pos()
			if fn.Doc != nil {
				from = fn.Doc.Pos()
			}
			end := files.Position(fn.End()).Offset
			line, _, _ := strings.Cut(string(src[end:]), "\n")
			name := strings.ToUpper(fn.Name.Name[:1]) + fn.Name.Name[1:] // testX is the body of TestX
			tests[name] += string(src[files.Position(from).Offset:end]) + line
		}
		return nil
	}))
	return tests
}

var testName = regexp.MustCompile("`(Test[A-Z]\\w*)`")

func TestEveryTestThatTheDocsNameIsThere(t *testing.T) {
	tests := testsByName(t)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			named++
			if tests[m[1]] == "" {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
		}
	}
	require.Greater(t, named, 100)
}

// A row of docs/servers.md is kept by a test that knows its number.
func TestEachBugOfOtherServersHasATestThatNamesIt(t *testing.T) {
	tests := testsByName(t)
	page, err := os.ReadFile("docs/servers.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| (B\d+) \|.*$`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 43)
	for _, row := range rows {
		number := regexp.MustCompile(`\b` + row[1] + `\b`)
		found := strings.Contains(row[0], "cannot occur: a transaction is rolled back")
		for _, m := range testName.FindAllStringSubmatch(row[0], -1) {
			found = found || number.MatchString(tests[m[1]])
		}
		if !found {
			t.Errorf("%s: none of its tests names it", row[1])
		}
	}
}
