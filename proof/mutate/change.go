package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
)

// A change replaces some bytes of a file.
type change struct {
	file       string
	line       int
	start, end int
	old, new   string
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d: %s → %s", c.file, c.line, brief(c.old), brief(c.new))
}

func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 90 {
		s = s[:90] + "…"
	}
	if s == "" {
		return "nothing"
	}
	return s
}

// swapped are operators and what they become.
var swapped = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

// forReaders are functions that only say what happened.
var forReaders = map[string]bool{"String": true, "Error": true, "advice": true, "LogValue": true, "failure": true, "GoString": true}

// changes returns every change of a file.
func changes(name string) ([]change, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		return nil, err
	}
	f := &finder{name: name, src: src, set: set}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && !forReaders[d.Name.Name] {
				ast.Inspect(d.Body, f.visit)
			}
		case *ast.GenDecl:
			if d.Tok == token.CONST {
				ast.Inspect(d, f.visit)
			}
		}
	}
	return f.found, nil
}

type finder struct {
	name  string
	src   []byte
	set   *token.FileSet
	found []change
}

func (f *finder) add(from, to token.Pos, text string) {
	start, end := f.set.Position(from), f.set.Position(to)
	f.found = append(f.found, change{f.name, start.Line, start.Offset, end.Offset, string(f.src[start.Offset:end.Offset]), text})
}

func (f *finder) text(n ast.Node) string {
	return string(f.src[f.set.Position(n.Pos()).Offset:f.set.Position(n.End()).Offset])
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.add(n.Cond.Pos(), n.Cond.End(), "false")
		}
	case *ast.CaseClause:
		for _, e := range n.List {
			if _, ok := e.(*ast.BinaryExpr); ok {
				f.negate(e)
			}
		}
	case *ast.BinaryExpr:
		if op, ok := swapped[n.Op]; ok && !quoted(n) {
			f.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op)
		}
	case *ast.ExprStmt, *ast.DeferStmt, *ast.IncDecStmt, *ast.SendStmt:
		f.add(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.drop(n)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.add(n.Pos(), n.End(), "("+n.Value+" + 1)")
		}
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			f.add(n.Pos(), n.End(), other)
		}
	}
	return true
}

func (f *finder) negate(cond ast.Expr) { f.add(cond.Pos(), cond.End(), "!("+f.text(cond)+")") }

// drop leaves what is assigned in use, so that the rest compiles.
func (f *finder) drop(n *ast.AssignStmt) {
	var rest []string
	for _, e := range n.Rhs {
		if _, ok := e.(*ast.Ident); ok {
			rest = append(rest, "_ = "+f.text(e))
		}
	}
	f.add(n.Pos(), n.End(), strings.Join(rest, "; "))
}

// quoted reports whether a sum is one of strings: minus does not compile there.
func quoted(n *ast.BinaryExpr) bool {
	for _, e := range []ast.Expr{n.X, n.Y} {
		switch e := e.(type) {
		case *ast.BasicLit:
			if e.Kind == token.STRING {
				return true
			}
		case *ast.BinaryExpr:
			if quoted(e) {
				return true
			}
		}
	}
	return false
}
