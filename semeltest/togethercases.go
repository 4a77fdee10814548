package semeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

var togetherCases = []togetherCase{{
	name: "nothing is lost",
	rule: "An answer is an answer.",
	run:  answered,
}, {
	name:   "the request is lost before the claim",
	rule:   "A request that claimed nothing is sent again.",
	faults: []testserver.Fault{testserver.At(testserver.BeforeClaim, 1, testserver.Abort)},
	run:    answered,
}, {
	name:   "the connection is lost before the effect",
	rule:   "A key is freed if its effect has not started; where nobody can know, the caller is told so, and nothing is run.",
	faults: []testserver.Fault{testserver.At(testserver.AfterClaim, 1, testserver.Abort)},
	run: func(p *pair) error {
		if p.server.Guard.Effect != testserver.Once {
			return answered(p)
		}
		op := semel.NewOperation("")
		_, _, err := p.do(op)
		return errors.Join(expectIs(err, semel.Unresolved), p.judge(op, semel.Unknown, 0))
	},
}, {
	name:   "the reply is lost after the effect",
	rule:   "The repeat gets the stored reply.",
	faults: []testserver.Fault{testserver.LoseReply(1)},
	run:    answered,
}, {
	name:   "three replies are lost",
	rule:   "The repeat gets the stored reply, however many were lost.",
	faults: []testserver.Fault{testserver.LoseReply(1), testserver.LoseReply(2), testserver.LoseReply(3)},
	run:    answered,
}, {
	name: "every reply is lost",
	rule: "When attempts run out the caller is told that nobody knows, and can ask again under the same key.",
	faults: []testserver.Fault{
		testserver.LoseReply(1), testserver.LoseReply(2), testserver.LoseReply(3), testserver.LoseReply(4),
	},
	run: func(p *pair) error {
		op := semel.NewOperation("")
		_, _, err := p.do(op)
		return errors.Join(expectIs(err, semel.Unknown), expectIs(err, semel.ErrAttempts), p.judge(op, semel.Unknown, 1), p.again(op))
	},
}, {
	name: "the reply is cut in its status line",
	rule: "A reply that ends in its head is no answer.",
	plan: first(Plan{Down: Cut{After: 10, End: FIN}}),
	run:  answered,
}, {
	name: "the reply is cut in its header",
	rule: "A reply that ends in its head is no answer.",
	plan: first(Plan{Down: Cut{After: 60, End: RST}}),
	run:  answered,
}, {
	name:   "the reply is cut in its body",
	rule:   "A reply that ends in its body is fetched again under the same key.",
	faults: []testserver.Fault{testserver.At(testserver.InReply, 1, testserver.Cut(7))},
	run:    answered,
}, {
	name: "the request is cut in its body",
	rule: "A request that was not read whole claims nothing.",
	plan: first(Plan{Up: Cut{After: 180, End: RST}}),
	run:  answered,
}, {
	name: "two at once",
	rule: "Of concurrent requests under one key one has the effect, and all get its reply.",
	run:  func(p *pair) error { return p.together(2) },
}, {
	name: "ten at once",
	rule: "Of concurrent requests under one key one has the effect, and all get its reply.",
	run:  func(p *pair) error { return p.together(10) },
}, {
	name: "a hundred at once",
	rule: "Of concurrent requests under one key one has the effect, and all get its reply.",
	run:  func(p *pair) error { return p.together(100) },
}, {
	name:   "the attempt times out while the server works",
	rule:   "The repeat waits for the first attempt and gets its reply.",
	faults: []testserver.Fault{testserver.At(testserver.AfterClaim, 1, testserver.Sleep(400*time.Millisecond))},
	run: func(p *pair) error {
		p.policy.AttemptTimeout = 100 * time.Millisecond
		p.policy.MaxAttempts = 50
		p.policy.Budget = &semel.Budget{Max: 1000}
		p.client = p.newClient()
		return answered(p)
	},
}, {
	name:   "a duplicate arrives late",
	rule:   "A copy of the request that arrives after the answer has no effect.",
	faults: []testserver.Fault{testserver.At(testserver.BeforeClaim, 1, testserver.Twice(50*time.Millisecond))},
	run: func(p *pair) error {
		return errors.Join(answered(p), p.server.Guard.Drain(p.t.Context()), expect("the transfers", len(p.server.Bank.Transfers()), 1))
	},
}, {
	name: "the key is used for another body",
	rule: "A key stands for one request: another one under it is refused and has no effect.",
	run: func(p *pair) error {
		op := semel.NewOperation("")
		_, _, err := p.do(op)
		other := semel.NewOperation(op.Key()) // a process that does not know of the first
		_, _, reused := send(p.newClient(), p.request(other.Context(p.t.Context()), `{"from":"alice","to":"bob","amount":200}`))
		return errors.Join(err, expectIs(reused, semel.KeyReused), p.judge(op, semel.Applied, 1))
	},
}, {
	name:   "the client restarts with a saved operation",
	rule:   "An operation that was saved before it was sent is finished by another process, once.",
	faults: []testserver.Fault{testserver.LoseReply(1)},
	run: func(p *pair) error {
		op := semel.NewOperation("")
		err := op.Bind(p.request(p.t.Context(), payload))
		var saved bytes.Buffer
		err = errors.Join(err, json.NewEncoder(&saved).Encode(op))
		p.policy.MaxAttempts = 1
		_, _, lost := send(p.newClient(), p.request(op.Context(p.t.Context()), payload))
		var restored semel.Operation
		err = errors.Join(err, json.NewDecoder(&saved).Decode(&restored))
		return errors.Join(err, expectIs(lost, semel.Unknown), p.again(&restored))
	},
}, {
	name: "the server is dead",
	rule: "If nothing was sent, the caller is told so.",
	run: func(p *pair) error {
		op := semel.NewOperation("")
		err := p.server.Close()
		p.base.CloseIdleConnections()
		_, _, sent := p.do(op)
		return errors.Join(err, expectIs(sent, semel.NotSent), p.judge(op, semel.NotSent, 0))
	},
}, {
	name:   "the server is overloaded",
	rule:   "The wait is as long as the server asks for.",
	faults: []testserver.Fault{testserver.At(testserver.BeforeClaim, 1, testserver.Status(http.StatusServiceUnavailable, time.Second))},
	run: func(p *pair) error {
		start := time.Now()
		err := answered(p)
		return errors.Join(err, expect("the wait is a second", time.Since(start) >= time.Second, true))
	},
}, {
	name:   "the server asks for a long wait",
	rule:   "A wait that is too long ends the operation at once; a request that was refused had no effect.",
	faults: []testserver.Fault{testserver.At(testserver.BeforeClaim, 1, testserver.Status(http.StatusTooManyRequests, 10*time.Minute))},
	run: func(p *pair) error {
		op := semel.NewOperation("")
		_, _, err := p.do(op)
		return errors.Join(expectIs(err, semel.ErrWait), p.judge(op, semel.NotApplied, 0))
	},
}, {
	name: "the bank refuses",
	rule: "A refusal is an answer, and a repeat of it is a replay.",
	run: func(p *pair) error {
		op := semel.NewOperation("")
		const much = `{"from":"alice","to":"bob","amount":100000}`
		status, _, err := send(p.client, p.request(op.Context(p.t.Context()), much))
		again, _, err2 := send(p.newClient(), p.request(op.Context(p.t.Context()), much))
		return errors.Join(err, err2, expect("the status", status, http.StatusPaymentRequired), expect("the second", again, status), p.judge(op, semel.NotApplied, 0))
	},
}}

// again asks for the operation once more, as another process.
func (p *pair) again(op *semel.Operation) error {
	status, _, err := send(p.newClient(), p.request(op.Context(p.t.Context()), payload))
	return errors.Join(err, expect("the status", status, http.StatusCreated), p.judge(op, semel.Applied, 1))
}

// first breaks the first connection.
func first(plan Plan) func(int) Plan {
	return func(conn int) Plan {
		if conn == 1 {
			return plan
		}
		return Plan{}
	}
}
