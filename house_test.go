package semel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The house keeps its own rules: which package may know which, and how large a file, a function and the public face may
// be. They hold in every module of the repository.

const (
	module    = "github.com/semel-go/semel"
	maxFile   = 300 // lines
	maxTests  = 500 // lines of a _test file
	maxFunc   = 60  // lines; those of a literal table are data and do not count, nor do a test's subtests
	maxPublic = 40  // exported names of the root package
)

// A room is a folder and what its packages may import besides the standard library and their own folder. The longest
// folder that a file is in decides.
type room struct {
	folder string
	ships  []string // import paths for code that ships; a path stands for all below it
	tests  []string // further ones for _test files
}

var (
	uuidPkg, backoffPkg = "github.com/google/uuid", "github.com/cenkalti/backoff/v4"
	testify             = "github.com/stretchr/testify/require"
	client              = module + "$" // the root package alone
	server, kit         = module + "/testserver$", module + "/semeltest"
	dialects            = module + "/dialects"
	memory              = module + "/testserver"
)

var rooms = []room{
	{"", []string{uuidPkg, backoffPkg}, []string{client, dialects, memory, kit, testify}},
	{"dialects", []string{client}, []string{memory, kit, testify}},
	{"testserver", nil, []string{server, client, kit, testify}},
	{"testserver/pgstore", []string{server, "github.com/jackc/pgx/v5"}, []string{client, kit, testify}},
	{"testserver/pgstore/pgtest", []string{"github.com/jackc/pgx/v5", "github.com/fergusstrange/embedded-postgres"}, []string{testify}},
	{"testserver/pgstore/examples", []string{client, server, "github.com/jackc/pgx/v5", module + "/testserver/pgstore$"}, []string{module + "/testserver/pgstore/pgtest", testify}},
	{"semeltest", []string{client, server, dialects}, []string{testify}},
	{"examples", []string{client, server, dialects}, []string{testify}},
	{"proof", []string{"*"}, nil}, // what proves the rest may use what it likes
	{"benchmarks", []string{"*"}, nil},
	{"cmd/semel", []string{client, dialects, memory, kit}, []string{testify}},
	{"otelsemel", []string{client, "go.opentelemetry.io/otel"}, []string{memory, kit, testify}},
}

func TestArrowsPointOneWay(t *testing.T) {
	for _, f := range goFiles(t) {
		r := roomOf(f.name)
		allowed := r.ships
		if strings.HasSuffix(f.name, "_test.go") {
			allowed = slices.Concat(r.ships, r.tests)
		}
		for _, spec := range f.tree.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			own := strings.HasPrefix(imported+"/", path.Join(module, r.folder)+"/") && r.folder != ""
			if !own && !allows(allowed, imported) {
				t.Errorf("%s imports %s, which its folder must not know", f.name, imported)
			}
		}
	}
}

// The root package's own tests that see its inside are part of it: they do not know the server either. Only tests from
// the outside see both ends.
func TestClientAndServerDoNotKnowEachOther(t *testing.T) {
	for _, f := range goFiles(t) {
		folder, pkg := path.Dir(f.name), f.tree.Name.Name
		for _, spec := range f.tree.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if folder == "." && pkg == "semel" && strings.HasPrefix(imported, module) {
				t.Errorf("%s is inside the client and imports %s", f.name, imported)
			}
			if folder == "testserver" && pkg == "testserver" && strings.HasPrefix(imported, module) {
				t.Errorf("%s is inside the server and imports %s", f.name, imported)
			}
		}
	}
}

func TestEmbeddingTheClientBumpsNobody(t *testing.T) {
	direct, replaces := goMod(t, "go.mod")
	require.ElementsMatch(t, []string{uuidPkg, backoffPkg, "github.com/stretchr/testify"}, direct)
	require.Empty(t, replaces)
	for _, published := range []string{"testserver/pgstore", "cmd/semel", "otelsemel"} {
		name := path.Join(published, "go.mod")
		if _, err := os.Stat(name); err != nil {
			continue
		}
		_, replaces := goMod(t, name)
		require.Empty(t, replaces, "%s is imported by others, for whom a replace does not count", name)
	}
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for _, f := range goFiles(t) {
		limit := maxFile
		if strings.HasSuffix(f.name, "_test.go") {
			limit = maxTests
		}
		if n := f.set.File(f.tree.FileStart).LineCount(); n > limit {
			t.Errorf("%s has %d lines, more than %d", f.name, n, limit)
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.lines(fn) - f.inner(fn); n > maxFunc {
				t.Errorf("%s: %s has %d lines, more than %d", f.name, fn.Name.Name, n, maxFunc)
			}
		}
	}
}

func TestNoTestIsSkipped(t *testing.T) {
	for _, f := range goFiles(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				t.Errorf("%s: a test that is skipped proves nothing", f.set.Position(n.Pos()))
			}
			return true
		})
	}
}

type goFile struct {
	name string // slash-separated, from the repository's root
	set  *token.FileSet
	tree *ast.File
}

// goFiles returns every Go file of the repository, of all modules.
func goFiles(t *testing.T) (files []goFile) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		files = append(files, goFile{filepath.ToSlash(name), set, tree})
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func (f goFile) lines(n ast.Node) int {
	return f.set.Position(n.End()).Line - f.set.Position(n.Pos()).Line + 1
}

// inner returns the lines of fn that do not count: between the braces of the outermost tables, and of subtests, which are
// tests of their own.
func (f goFile) inner(fn ast.Node) (lines int) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			switch n.Type.(type) {
			case *ast.ArrayType, *ast.MapType:
				lines += max(0, f.lines(n)-2)
				return false
			}
		case *ast.CallExpr:
			run, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || run.Sel.Name != "Run" || len(n.Args) != 2 {
				return true
			}
			if sub, ok := n.Args[1].(*ast.FuncLit); ok && strings.HasSuffix(f.name, "_test.go") && f.lines(sub)-f.inner(sub.Body) <= maxFunc {
				lines += max(0, f.lines(sub)-2)
				return false
			}
		}
		return true
	})
	return lines
}

func roomOf(name string) (best room) {
	for _, r := range rooms {
		if strings.HasPrefix(name, r.folder+"/") && len(r.folder) > len(best.folder) || best.folder == "" && r.folder == "" {
			best = r
		}
	}
	return best
}

func allows(allowed []string, imported string) bool {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		if exact, ok := strings.CutSuffix(a, "$"); ok {
			return imported == exact
		}
		return a == "*" || imported == a || strings.HasPrefix(imported, a+"/")
	})
}

// goMod returns what a go.mod requires directly, and its replace lines.
func goMod(t *testing.T, name string) (direct, replaces []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	block := ""
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == ")":
			block = ""
			continue
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case block != "":
			fields = append([]string{block}, fields...)
		}
		switch {
		case fields[0] == "replace":
			replaces = append(replaces, strings.TrimSpace(line))
		case fields[0] == "require" && !strings.Contains(line, "// indirect"):
			direct = append(direct, fields[1])
		}
	}
	return direct, replaces
}
