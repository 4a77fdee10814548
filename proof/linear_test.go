package proof

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/semel-go/semel"
)

// What the callers were told, and the balances at the end, must be what some one-at-a-time bank could have said: one that
// moves the money of a key once. Nothing of the server's side is looked at.

// accountState is a bank as porcupine sees it; it is compared with ==.
type accountState struct {
	balance [3]int64
	keys    [3]keyState
}

type keyState struct {
	amount int64  // that has moved under the key; 0: none
	answer string // "" if nobody has seen it yet
}

type asked struct {
	final    bool // the balances are read
	key      int
	from, to int
	amount   int64
}

type told struct {
	kind    string // "answer", "happened", "refused", "unknown", "final"
	answer  string
	balance [3]int64
}

func (s accountState) moved(a asked, answer string) accountState {
	s.balance[a.from] -= a.amount
	s.balance[a.to] += a.amount
	s.keys[a.key] = keyState{a.amount, answer}
	return s
}

// step returns the states in which the bank may be after it has told this.
func step(state, input, output any) []any {
	s, a, o := state.(accountState), input.(asked), output.(told)
	k := s.keys[a.key]
	switch o.kind {
	case "final":
		if o.balance != s.balance {
			return nil
		}
		return []any{s}
	case "answer", "happened":
		switch {
		case k.amount == 0:
			return []any{s.moved(a, o.answer)}
		case k.amount != a.amount || k.answer != "" && o.answer != "" && k.answer != o.answer:
			return nil
		case o.answer != "":
			s.keys[a.key].answer = o.answer
		}
		return []any{s}
	case "refused":
		if k.amount == a.amount {
			return nil
		}
		return []any{s}
	}
	if k.amount != 0 {
		return []any{s}
	}
	return []any{s, s.moved(a, "")}
}

// operations makes porcupine's history of what the callers were told.
func operations(j *judge) (ops []porcupine.Operation) {
	end := time.Duration(0)
	for _, v := range j.jobs {
		for _, c := range v.calls {
			if c.called == nil || c.told == nil || c.n >= reuses {
				continue
			}
			o, until := told{kind: "unknown"}, int64(math.MaxInt64-1) // it may still happen at any time
			switch e := c.told; {
			case e.Outcome == semel.Applied && e.Err == nil:
				o, until = told{kind: "answer", answer: e.Body}, int64(e.At)
			case e.Outcome == semel.Applied || e.Outcome == semel.AppliedEarlier:
				o, until = told{kind: "happened"}, int64(e.At)
			case e.Outcome == semel.NotApplied || e.Outcome == semel.NotSent:
				o, until = told{kind: "refused"}, int64(e.At)
			case e.Verdict == semel.KeyReused && c.n >= audits:
				continue
			}
			end = max(end, c.told.At)
			a := asked{key: v.n - 1, from: accounts[v.from], to: accounts[v.to], amount: c.amountOf(j)}
			ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: a, Output: o, Call: int64(c.called.At), Return: until})
		}
	}
	last := told{kind: "final"}
	for name, n := range accounts {
		last.balance[n] = j.w.bank.Balance(name) - funds
	}
	return append(ops, porcupine.Operation{ClientId: len(ops), Input: asked{final: true}, Output: last, Call: int64(end) + 1, Return: int64(end) + 2})
}

// linear reports whether the world's callers were told what a bank could have said.
func linear(t *testing.T, s Seed, d func(*world) defect) porcupine.CheckResult {
	t.Helper()
	p := s.plan()
	p.copied = func(int, int) (time.Duration, bool) { return 0, false } // copies are nobody's
	w, broken := bubble(t, p, d)
	if broken != nil {
		return porcupine.Illegal
	}
	j := &judge{w: w, events: w.history.all(), calls: make(map[int]*callView)}
	j.read()
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{accountState{}} },
		Step: step,
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), operations(j), 10*time.Second)
}

func TestWhatCallersAreToldIsLinearizable(t *testing.T) {
	n := min(*worlds, 400)
	for s := range seeds(t, n) {
		if r := linear(t, s, correct); r != porcupine.Ok {
			t.Errorf("SEMEL_SEED=%d go test -run '^%s$' .: %s", s, t.Name(), r)
		}
	}
}

// How many of the defects the callers' side alone tells of. The others are lost time, broken promises and half-truths.
func TestMutantsByWhatCallersAreTold(t *testing.T) {
	n := max(min(*kill, 1000), 60)
	found := 0
	for _, m := range mutants() {
		bad := 0
		for s := range n {
			if linear(t, Seed(s), m.make) == porcupine.Illegal {
				bad++
			}
		}
		t.Logf("%-4s %-50s not linearizable in %4d of %d worlds", m.name, m.what, bad, n)
		if bad > 0 {
			found++
		}
	}
	if found < 12 {
		t.Errorf("only %d mutants are seen from outside", found)
	}
}
