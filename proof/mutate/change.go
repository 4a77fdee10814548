package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
)

// A change is something small that a file would say otherwise. All of them are put into the source together, each behind
// a switch that one of them at most is on, so that the tests are built once and not once for each.
type change struct {
	id         int // from 1, over all files
	file       string
	line, last int // in the file, the first is 1
	start, end int // in the file
	what       string

	forms []form // tried one after the other until one compiles; none left: it has none
}

// A form is how a change is put into the source: before and after what it changes, and instead of the operator, if any.
type form struct{ before, operator, after string }

func (c *change) String() string { return fmt.Sprintf("%s:%d: %s", c.file, c.line, c.what) }

func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 90 {
		s = s[:90] + "…"
	}
	return s
}

// forReaders are functions that only say what happened.
var forReaders = map[string]bool{"String": true, "Error": true, "advice": true, "LogValue": true, "failure": true, "GoString": true}

// A source is a file with its changes.
type source struct {
	name    string
	text    []byte
	set     *token.FileSet
	changes []*change
	ops     map[int]*change   // changed operators by their offset
	fixed   map[ast.Node]bool // statements that must stay where they are
	next    func() int        // the next change's number
}

// read returns a file and every change of it.
func read(name string, next func() int) (*source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s := &source{name: name, text: text, set: token.NewFileSet(), ops: make(map[int]*change), fixed: make(map[ast.Node]bool), next: next}
	tree, err := parser.ParseFile(s.set, name, text, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil && !forReaders[d.Name.Name] {
			ast.Inspect(d.Body, s.visit)
		}
	}
	return s, nil
}

func (s *source) at(p token.Pos) int { return s.set.Position(p).Offset }

func (s *source) raw(n ast.Node) string { return string(s.text[s.at(n.Pos()):s.at(n.End())]) }

func (s *source) add(n ast.Node, what string, forms ...form) *change {
	c := &change{id: s.next(), file: s.name, line: s.set.Position(n.Pos()).Line, last: s.set.Position(n.End()).Line, start: s.at(n.Pos()), end: s.at(n.End()), what: what, forms: forms}
	for i, f := range forms {
		on := strings.NewReplacer("\x00", fmt.Sprintf("mutantOn(%d)", c.id))
		c.forms[i] = form{on.Replace(f.before), f.operator, on.Replace(f.after)}
	}
	s.changes = append(s.changes, c)
	return c
}

func (s *source) negate(cond ast.Expr) {
	s.add(cond, "not "+brief(s.raw(cond)), form{"(\x00 != (", "", "))"})
}

func (s *source) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		s.fixed[n.Init] = true
		if b, ok := n.Cond.(*ast.BinaryExpr); !ok || b.Op != token.EQL && b.Op != token.NEQ {
			s.negate(n.Cond)
		}
	case *ast.ForStmt:
		s.fixed[n.Init], s.fixed[n.Post] = true, true
		if n.Cond != nil {
			s.add(n.Cond, "never "+brief(s.raw(n.Cond)), form{"(!\x00 && (", "", "))"})
		}
	case *ast.SwitchStmt:
		s.fixed[n.Init] = true
	case *ast.TypeSwitchStmt:
		s.fixed[n.Init], s.fixed[n.Assign] = true, true
	case *ast.CommClause:
		s.fixed[n.Comm] = true
	case *ast.CaseClause:
		for _, e := range n.List {
			if b, ok := e.(*ast.BinaryExpr); ok && b.Op != token.EQL && b.Op != token.NEQ {
				s.negate(b)
			}
		}
	case *ast.BinaryExpr:
		s.operator(n)
	case *ast.ExprStmt, *ast.DeferStmt, *ast.IncDecStmt, *ast.SendStmt:
		s.drop(n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			s.drop(n)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			var forms []form
			for _, t := range []string{"int", "time.Duration", "int64", "uint64", "byte", "float64", "rune"} {
				forms = append(forms, form{"mutantMore[" + t + "](\x00, ", "", ")"})
			}
			s.add(n, n.Value+" + 1", forms...)
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			s.add(n, "true → false", form{"(!\x00 && ", "", ")"})
		case "false":
			s.add(n, "false → true", form{"(\x00 || ", "", ")"})
		}
	}
	return true
}

func (s *source) drop(n ast.Node) {
	if !s.fixed[n] && !strings.HasPrefix(s.raw(n), "panic(") { // a function may have to end with it
		s.add(n, "without "+brief(s.raw(n)), form{"if !\x00 { ", "", " }"})
	}
}

func (s *source) operator(n *ast.BinaryExpr) {
	x, y, what := s.raw(n.X), s.raw(n.Y), brief(s.raw(n))
	switch n.Op {
	case token.EQL, token.NEQ:
		s.add(n, "not "+what, form{"(\x00 != (", "", "))"})
	case token.LSS:
		s.add(n, what+": < → <=", form{"(", "", " || \x00 && " + x + " <= " + y + ")"})
	case token.GTR:
		s.add(n, what+": > → >=", form{"(", "", " || \x00 && " + x + " >= " + y + ")"})
	case token.LEQ:
		s.add(n, what+": <= → <", form{"(", "", " && (!\x00 || " + x + " < " + y + "))"})
	case token.GEQ:
		s.add(n, what+": >= → >", form{"(", "", " && (!\x00 || " + x + " > " + y + "))"})
	case token.LAND:
		s.add(n, what+": && → ||", form{"(", "", " || \x00 && (" + x + " || " + y + "))"})
	case token.LOR:
		s.add(n, what+": || → &&", form{"((", "", ") && (!\x00 || (" + x + ") && (" + y + ")))"})
	case token.ADD, token.SUB:
		name := map[token.Token]string{token.ADD: "mutantSum", token.SUB: "mutantDifference"}[n.Op]
		c := s.add(n, what+": + ↔ -", form{name + "(\x00, ", ",", ")"})
		s.ops[s.at(n.OpPos)] = c
	}
}
