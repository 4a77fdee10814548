package proof

import (
	"slices"
	"time"

	"github.com/semel-go/semel"
)

// Calls of the audit have numbers of their own.
const (
	audits = 1000 // asks for the answer
	reuses = 2000 // tries another payload under the key
	lates  = 3000 // resumes an operation that the server has forgotten
)

// keyOf returns the key that a job went out under; "" if it never got as far.
func (w *world) keyOf(j job) string {
	if j.key != "" {
		return j.key
	}
	for _, e := range w.history.all() {
		if (e.Kind == Claimed || e.Kind == Began) && e.Job == j.n && e.ID.Key != "" {
			return e.ID.Key
		}
	}
	return ""
}

// audit asks about every key, as somebody who brings it, now that nothing goes wrong any more: there must be an answer, and
// another payload must be refused.
func (w *world) audit() {
	if w.plan.brief && w.history.now() > w.plan.retention-10*time.Minute {
		return // who brings the key now begins another operation
	}
	c := w.newClient()
	defer c.close()
	for _, j := range w.plan.jobs {
		if j.key = w.keyOf(j); j.key == "" {
			continue
		}
		for i, amount := range w.amounts(j) {
			a := caller{call: audits + 10*j.n + i, way: inOp, amount: amount}
			w.audited[a.call] = amount
			if told := w.perform(j, a, c, nil); told.Verdict != semel.KeyReused {
				break
			}
		}
		w.perform(j, caller{call: reuses + j.n, way: inOp, amount: reused + int64(j.n)}, c, nil)
	}
}

// amounts are the payloads that may have taken the key; the one that moved money first.
func (w *world) amounts(j job) (amounts []int64) {
	for _, t := range w.bank.Transfers() {
		if t.Operation.Key == j.key {
			return []int64{t.Amount}
		}
	}
	amounts = []int64{j.amount}
	for _, a := range j.callers {
		if !slices.Contains(amounts, a.amount) {
			amounts = append(amounts, a.amount)
		}
	}
	return amounts
}

// takeUpLate resumes saved operations when the server has forgotten them.
func (w *world) takeUpLate() {
	if !w.plan.outlives || len(w.saved) == 0 {
		return
	}
	time.Sleep(80 * time.Hour)
	for _, s := range w.saved {
		w.resume(s.job, caller{call: lates + s.job.n, way: restarted, amount: s.job.amount}, s.data)
	}
}

// reused is added to a job's number for a payload that nobody else sends.
const reused = 7700
