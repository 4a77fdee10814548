package benchmarks

import (
	"bytes"
	"context"
	"fmt"
)

var (
	body1K = bytes.Repeat([]byte("k"), 1<<10)
	body1M = bytes.Repeat([]byte("m"), 1<<20)
)

// A Case is one thing that each peer is asked to do over a Stub.
type Case struct {
	Name     string
	Method   string
	Body     []byte
	Reader   bool
	Attempts uint64 // that one operation takes
	Reply    int    // bytes of the answer's body

	plan func(uint64) (int, string)
}

// Cases returns the cases, in the order of the tables.
func Cases() []Case {
	once, retried, large := answered(okBody), everyOther, answered(reply64K)
	return []Case{
		{"GET", "GET", nil, false, 1, len(okBody), once},
		{"POST1K", "POST", body1K, false, 1, len(okBody), once},
		{"POST1M", "POST", body1M, false, 1, len(okBody), once},
		{"Reader1K", "POST", body1K, true, 1, len(okBody), once},
		{"Reader1M", "POST", body1M, true, 1, len(okBody), once},
		{"Reply64K", "POST", body1K, false, 1, len(reply64K), large},
		{"RetryGET", "GET", nil, false, 2, len(okBody), retried},
		{"RetryPOST1K", "POST", body1K, false, 2, len(okBody), retried},
		{"RetryPOST1M", "POST", body1M, false, 2, len(okBody), retried},
		{"RetryReader1K", "POST", body1K, true, 2, len(okBody), retried},
	}
}

// A Runner performs one operation of one case with one peer, over and over.
type Runner struct {
	Peer *Peer
	Case *Case

	stub *Stub
	send Send
	op   *Op
}

// NewRunner builds the peer for the case and tries it once. The error says why the peer does not do the case.
func NewRunner(p *Peer, c *Case) (*Runner, error) {
	switch {
	case p.Once && c.Attempts > 1:
		return nil, fmt.Errorf("never retries")
	case p.NoReader && c.Reader:
		return nil, fmt.Errorf("takes no plain reader")
	}
	r := &Runner{Peer: p, Case: c, stub: &Stub{Plan: c.plan}}
	r.send = p.New(r.stub, stubBase)
	r.op = &Op{Method: c.Method, URL: stubBase + "/v1/op", Path: "/v1/op", Body: c.Body, Reader: c.Reader}
	if err := r.Do(); err != nil {
		return nil, err
	}
	return r, r.Check(1)
}

// Do performs one operation.
func (r *Runner) Do() error {
	status, err := r.send(context.Background(), r.op)
	if err == nil && status != 200 {
		err = fmt.Errorf("status %d after %d attempts", status, r.stub.attempts.Load())
	}
	return err
}

// Check tells whether the n operations since the last Check took the attempts that the case asks for, the last of them with
// its body whole.
func (r *Runner) Check(n uint64) error {
	if got := r.stub.attempts.Swap(0); got != n*r.Case.Attempts {
		return fmt.Errorf("%d attempts for %d operations", got, n)
	}
	if got := r.stub.bodyLen.Load(); got != int64(len(r.Case.Body)) {
		return fmt.Errorf("the last attempt carried %d of %d body bytes", got, len(r.Case.Body))
	}
	return nil
}
