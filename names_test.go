package semel_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a reader knows by its name needs no comment.
var wellKnown = []string{
	"Error", "Unwrap", "Is", "As", "String", "GoString", "Format", "LogValue", "Timeout", "Temporary",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText",
	"ServeHTTP", "RoundTrip", "CloseIdleConnections", "Read", "Write", "Close", "Header", "WriteHeader", "Flush",
	"Addr", "LocalAddr", "RemoteAddr", "SetDeadline", "SetReadDeadline", "SetWriteDeadline", "Accept", "Network",
	"Len", "Less", "Swap", "Push", "Pop",
	"Claim", "Renew", "Settle", "Look", "Wait", "Purge", "Transact", // testserver.Store says it for all stores,
	"Open", "Transfer", "Transfers", "Balances", // and testserver.Ledger for all ledgers
}

func TestThePublicFaceStaysSmall(t *testing.T) {
	var public []string
	for _, f := range goFiles(t) {
		if path.Dir(f.name) != "." || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		for _, n := range exported(f.tree) {
			if !n.method {
				public = append(public, n.name)
			}
		}
	}
	slices.Sort(public)
	require.LessOrEqual(t, len(public), maxPublic, "the root package exports %s", public)
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.name, "_test.go") || f.tree.Name.Name == "main" {
			continue
		}
		for _, n := range exported(f.tree) {
			if known := n.method && slices.Contains(wellKnown, n.name); !n.documented && !known {
				t.Errorf("%s: %s has no comment", f.name, n.name)
			}
		}
	}
}

// The fields of the root package are its options, so each says what it does, in which unit, and what zero means.
func TestEveryFieldOfTheRootPackageIsDocumented(t *testing.T) {
	for _, f := range goFiles(t) {
		if path.Dir(f.name) != "." || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || !spec.Name.IsExported() {
				return false
			}
			for _, field := range fields.Fields.List {
				for _, id := range field.Names {
					if id.IsExported() && field.Doc == nil && field.Comment == nil {
						t.Errorf("%s: field %s.%s has no comment", f.name, spec.Name, id)
					}
				}
			}
			return false
		})
	}
}

type exportedName struct {
	name       string
	method     bool
	documented bool
}

// exported returns the exported names that a file declares, and the methods of exported types. The comment of a group
// counts for all in it.
func exported(file *ast.File) (names []exportedName) {
	add := func(id *ast.Ident, method bool, docs ...*ast.CommentGroup) {
		if id.IsExported() {
			documented := slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil })
			names = append(names, exportedName{id.Name, method, documented})
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				add(d.Name, d.Recv != nil, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id, false, d.Doc, s.Doc, s.Comment)
					}
				case *ast.TypeSpec:
					add(s.Name, false, d.Doc, s.Doc, s.Comment)
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	switch t := t.(type) {
	case *ast.IndexExpr:
		return t.X.(*ast.Ident).Name
	case *ast.Ident:
		return t.Name
	default:
		return ""
	}
}
