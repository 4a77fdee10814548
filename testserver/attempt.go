package testserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// An attempt is one request with a key, read whole.
type attempt struct {
	g     *Guard
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
	claim Claim
	n     int  // the how manieth of its key, if there is a Fault
	run   *run // nil until the key is claimed
}

func (a *attempt) serve() {
	a.n = a.g.count(a.claim.ID)
	if !a.pass(BeforeClaim) {
		return
	}
	switch {
	case a.late() && a.tooLate():
	case a.g.Effect == Transactional:
		a.transact()
	default:
		a.begin(true)
	}
}

// begin claims the key, and works under it or tells why not.
func (a *attempt) begin(recover bool) {
	rec, lapses, err := a.take()
	switch {
	case err != nil:
		a.problem(unavailable(err))
	case rec.HeldBy(a.claim.Owner):
		a.work(rec.Hold(), lapses)
	case rec.State == Unknown && rec.Fingerprint == a.claim.Fingerprint && recover && a.recover(rec):
		a.begin(false)
	default:
		a.tell(rec)
	}
}

// late reports whether the operation began, by its own account, before the store's memory does. A repeat of it could find
// nothing and run again.
func (a *attempt) late() bool {
	begun, err := http.ParseTime(a.r.Header.Get("Repeatability-First-Sent"))
	return err == nil && time.Since(begun) > a.claim.Retention
}

// tooLate answers without a claim, unless the operation is not at its end.
func (a *attempt) tooLate() bool {
	rec, err := a.g.look(a.r.Context(), a.claim.ID)
	switch {
	case err != nil:
		a.problem(unavailable(err))
	case rec.State == Free:
		a.problem(keyExpired.because("The operation began before the server's memory does."))
	case rec.State == Completed || rec.State == Tombstone:
		a.tell(rec)
	default:
		return false
	}
	return true
}

// tell answers with what the record says. The claim did not succeed.
func (a *attempt) tell(rec Record) {
	switch {
	case rec.State != Free && rec.Fingerprint != a.claim.Fingerprint:
		a.problem(keyReused.because("It belongs to a request with another method, URL, content type or body. A new operation needs a new key."))
	case rec.State == Completed && rec.Answer != nil:
		a.send(replay(rec.Answer))
	case rec.State == Tombstone || rec.State == Completed:
		a.problem(notRetained(rec.Answer))
	case rec.State == Unknown:
		a.problem(stillUnknown)
	default:
		a.problem(inProgress.because("Repeat with the same key to get its answer.").after(pollAfter(rec)))
	}
}

// pollAfter paces the polls: the longer it has taken, the longer it is likely to take. After the lease ends there is
// something new to learn.
func pollAfter(rec Record) time.Duration {
	d := min(max(rec.Age/2, 100*time.Millisecond), 5*time.Second)
	if rec.Left > 0 {
		d = min(d, rec.Left+time.Millisecond)
	}
	return d
}

func notRetained(a *Answer) problem {
	p := responseNotRetained.because("Do not repeat the operation: look at what it has made.")
	if a == nil {
		return p
	}
	p.OriginalStatus = a.Status
	for _, f := range a.Header {
		if http.CanonicalHeaderKey(f.Name) == "Location" {
			p.location = f.Value
		}
	}
	return p
}

func unavailable(err error) problem {
	switch {
	case errors.Is(err, ErrInDoubt):
		return commitInDoubt.because("Repeat with the same key: the next claim will know.").after(time.Second)
	case errors.Is(err, ErrFull):
		return storeUnavailable.because("The store takes no more keys now. Nothing was run.").after(time.Second)
	}
	return storeUnavailable.because("Nothing was run by this request. Repeat with the same key.").after(time.Second)
}

func (a *attempt) problem(p problem) { a.send(p.answer()) }

// request returns the request as the handler gets it: with the body from its first byte, and a context that does not end
// with the client.
func (a *attempt) request(ctx context.Context) *http.Request {
	r := a.r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(a.body))
	r.ContentLength = int64(len(a.body))
	r.TransferEncoding = nil
	return r
}

// handle runs the handler between its points. A nil error means that the reply stands in rec.
func (a *attempt) handle(ctx context.Context, rec *recorder) error {
	if err := a.fail(AfterClaim, rec); err != nil || rec.wrote {
		return err
	}
	a.g.Next.ServeHTTP(rec, a.request(ctx))
	return a.fail(AfterEffect, rec)
}
