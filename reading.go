package semel

import (
	"net/http"
	"slices"
	"strings"
)

// read gives the reply its verdict: the replay marker first, then the dialect, then what the status and the problem say.
func (c *call) read(y *try, before history) ruling {
	resp, d := y.resp, &c.t.Dialect
	r := ruling{
		status:   resp.StatusCode,
		before:   before.sends > 0 || before.inFlight > 1 || y.sent() > 1,
		rollback: d.FailuresRollBack,
		safe:     c.safe,
	}
	if c.keyed && d.replayed(resp) {
		r.verdict = Replay
		return r
	}
	if resp.StatusCode >= 400 && d.Classify != nil {
		r.verdict, r.resource = d.Classify(resp, slices.Clone(prefixOf(resp.Body)))
	}
	if r.verdict == 0 {
		c.readDefault(&r, y, before)
	}
	if d.ShouldRetry != "" && resp.StatusCode >= 400 {
		switch strings.ToLower(strings.TrimSpace(resp.Header.Get(d.ShouldRetry))) {
		case "true":
			if r.verdict == Final {
				r.verdict = Transient
			}
		case "false":
			if r.verdict == Transient || r.verdict == Running {
				y.told = true
			}
		}
	}
	return r
}

// readDefault reads a reply in the words of the wire contract and, where it has none, by its status.
func (c *call) readDefault(r *ruling, y *try, before history) {
	r.verdict = byStatus(r.status)
	if !c.keyed || r.status < 400 {
		return
	}
	p := readProblem(y.resp.Header.Get("Content-Type"), prefixOf(y.resp.Body))
	evidence := p.idempotency || before.doubt || before.inFlight > 1
	switch r.status {
	case http.StatusBadRequest:
		if p.code == "key_missing" || p.code == "key_invalid" {
			r.verdict = BadKey
		}
	case http.StatusConflict:
		switch {
		case p.code == "outcome_unknown":
			r.verdict = Unresolved
		case p.code == "in_progress":
			r.verdict = Running
		case y.resp.Header.Get("Retry-After") != "", evidence:
			r.verdict, y.bare = Running, true
		}
	case http.StatusGone:
		if p.code == "response_not_retained" {
			c.tombstone(r, y, p.status)
		}
	case http.StatusPreconditionFailed:
		if p.code == "key_expired" {
			r.verdict = Expired
		}
	case http.StatusUnprocessableEntity:
		if p.code == "key_reused" || evidence {
			r.verdict = KeyReused
		}
	case http.StatusServiceUnavailable:
		r.rollback = r.rollback && p.code != "commit_in_doubt" // of all failures the one that does not say so
	}
}

// tombstone reads a reply that says how the operation ended and that its answer was not kept.
func (c *call) tombstone(r *ruling, y *try, original int) {
	switch {
	case original >= 500 && r.rollback, original >= 400 && original < 500:
		r.verdict = Refused
	case original >= 200 && original < 400:
		r.verdict, r.resource = AlreadyDone, y.resp.Header.Get("Location")
	default:
		r.verdict = Unresolved
	}
}

// byStatus is what a status says by itself.
func byStatus(status int) Verdict {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Transient
	}
	return Final
}
