package semel

import "net/http"

// A history is what is known of the sends under one key. It answers one question: what may the caller believe?
type history struct {
	foreign  bool    // the key was not minted in this process
	restored bool    // the operation comes from another process: what it saw as a replay may be its own
	doubt    bool    // a send went unanswered: only a verdict tied to the key settles it
	refused  bool    // a reply said that it had no effect
	attempts int32   // that came back
	sends    int32   // requests written, or that may have been
	inFlight int32   // attempts that have not come back yet
	calls    int32   // under way, which may still make attempts
	proven   Outcome // Applied or AppliedEarlier, for good
}

func (h *history) outcome() Outcome {
	switch {
	case h.proven != Unknown:
		return h.proven
	case h.doubt || h.inFlight > 0 || h.calls > 0:
		return Unknown
	case h.refused:
		return NotApplied
	case h.sends == 0:
		return NotSent
	default:
		return Unknown
	}
}

// prove records that it has happened; what was known first stays.
func (h *history) prove(o Outcome) {
	if h.proven == Unknown {
		h.proven = o
	}
}

// unanswered records an attempt that may have arrived.
func (h *history) unanswered() { h.doubt = true }

// unprocessed records an attempt that provably had no effect, though it may have been sent.
func (h *history) unprocessed() { h.refused = true }

// cut records a reply whose head arrived and whose body did not. A 2xx is proof all the same.
func (h *history) cut(r ruling) {
	switch {
	case !success(r.status):
		h.doubt = true
	case r.verdict == Replay:
		h.replayed(r)
	default:
		h.prove(Applied)
	}
}

// A ruling is a verdict with what else decides about the outcome.
type ruling struct {
	verdict  Verdict
	status   int
	before   bool // something had been sent under the key before this attempt
	rollback bool // the dialect says that a 5xx has no effect
	safe     bool // the method has no effect to be in doubt about
	resource string
}

// answered records a reply, by the table of verdicts and outcomes.
func (h *history) answered(r ruling) {
	if r.safe {
		h.doubt, h.refused = false, false
	}
	switch r.verdict {
	case Replay:
		h.replayed(r)
	case AlreadyDone:
		h.prove(AppliedEarlier)
	case Refused:
		h.doubt, h.refused = false, true
	case Running, Unresolved:
		h.doubt = true
	case KeyReused, BadKey, Expired:
		h.refused = true
	default:
		h.byStatus(r)
	}
}

// replayed records a stored answer. Being tied to the key, it settles what was in doubt.
func (h *history) replayed(r ruling) {
	switch {
	case success(r.status), r.status == http.StatusSeeOther:
		if r.before || h.restored {
			h.prove(Applied)
		} else {
			h.prove(AppliedEarlier)
		}
	case r.status >= 500 && !r.rollback, r.status < 400:
		h.doubt = true
	default:
		h.doubt, h.refused = false, true
	}
}

// byStatus records a reply that nothing ties to the key.
func (h *history) byStatus(r ruling) {
	switch s := r.status; {
	case success(s), s == http.StatusSeeOther, s == http.StatusNotModified && r.safe:
		h.prove(Applied)
	case s == http.StatusTemporaryRedirect, s == http.StatusPermanentRedirect:
		h.refused = true
	case s < 400:
		h.refused = r.safe
		h.doubt = !r.safe
	case s == http.StatusRequestTimeout:
		h.doubt = true
	case s < 500, r.rollback:
		h.refused = true
	default:
		h.doubt = true
	}
}

func success(status int) bool { return status >= 200 && status < 300 }

// underWay tells those who share the operation whether this call may still send it: until then nobody can say that it will
// have no effect.
func (c *call) underWay(n int32) {
	if c.hop {
		return
	}
	c.op.lock()
	defer c.op.unlock()
	c.op.history.calls += n
}

// outcome is what this call may believe while it is under way, if it ended now.
func (c *call) outcome() Outcome {
	c.op.lock()
	defer c.op.unlock()
	h := c.op.history
	if !c.hop {
		h.calls--
	}
	return h.outcome()
}

// judge reads the reply and records what the attempt tells of the operation.
func (c *call) judge(y *try) {
	op, sends := c.op, y.sent()
	op.lock()
	if !c.hop && sends > 1 && !y.resentUnprocessed() {
		op.history.doubt = true // what came back is no answer to the sends before the last
	}
	before := op.history
	op.unlock()
	var r ruling
	if y.resp != nil {
		r = c.read(y, before)
	}
	if y.err == nil {
		y.verdict, c.verdict, c.resource = r.verdict, r.verdict, r.resource
	} else {
		c.verdict, c.resource = 0, ""
	}
	c.attempts++
	c.sends += int32(sends)
	if c.hop {
		return
	}
	op.lock()
	defer op.unlock()
	h := &op.history
	h.inFlight--
	h.attempts++
	h.sends += int32(sends)
	switch {
	case y.err == nil:
		h.answered(r)
	case y.fault == cut:
		h.cut(r)
	case y.fault == unprocessed:
		h.unprocessed()
	case sends > 0:
		h.unanswered()
	}
}
