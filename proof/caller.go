package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/semel-go/semel"
)

// A client is one life of the process that calls.
type client struct {
	world     *world
	base      base
	transport *semel.Transport
	died      context.Context
	kill      context.CancelFunc
}

func (w *world) newClient() *client {
	c := &client{world: w, base: w.newBase()}
	c.died, c.kill = context.WithCancel(context.Background())
	c.transport = &semel.Transport{
		Base:    w.defect.base(c.base.RoundTripper),
		NewKey:  func(r *http.Request) (string, error) { return mintedKey(w.plan.seed, r.Header.Get(jobHeader)), nil },
		Observe: w.observe,
		Retry: semel.Policy{
			MaxAttempts:    w.plan.attempts,
			Backoff:        func() semel.Backoff { return &steps{first: w.plan.firstWait()} },
			AttemptTimeout: w.plan.attemptTimeout(w.calm.Load()),
			AttemptHeader:  tryHeader,
		},
	}
	if w.plan.unlimited {
		c.transport.Retry.Budget = &semel.Budget{Max: 1e9}
	}
	c.transport.Dialect.FailuresRollBack = w.plan.rollsBack
	if w.plan.brief {
		c.transport.Dialect.Lifetime = w.plan.retention
	}
	if w.plan.firstSent {
		c.transport.Dialect.Extra = func(h http.Header, begun time.Time) {
			h.Set("Repeatability-First-Sent", begun.UTC().Format(http.TimeFormat))
		}
	}
	w.defect.transport(c.transport)
	return c
}

func (c *client) close() { c.base.idle(); c.kill() }

// patience is how long a caller reads an answer.
const patience = 20 * time.Second

// steps are the waits of one call, without the jitter that would make two runs of a world differ.
type steps struct {
	first time.Duration
	n     int
}

func (s *steps) NextBackOff() time.Duration {
	s.n++
	return min(s.first<<(s.n-1), 50*s.first)
}

func mintedKey(s Seed, job string) string { return fmt.Sprintf("minted-%s-of-%d", job, s) }

// observe writes down how an attempt ended.
func (w *world) observe(a semel.Attempt) {
	e := Event{Kind: Tried, Since: w.history.now() - a.Elapsed, Sends: a.Sends, Outcome: a.Outcome, Verdict: a.Verdict, Err: a.Err}
	e.Job, _ = strconv.Atoi(a.Request.Header.Get(jobHeader))
	e.Call, _ = strconv.Atoi(a.Request.Header.Get(callHeader))
	e.Try = tryNumber(strconv.Itoa(a.N), a.Request.URL.Path)
	if a.Response != nil {
		e.Status = a.Response.StatusCode
		e.Replayed = a.Response.Header.Get("Idempotent-Replayed") == "true"
		e.After = retryAfter(a.Response.Header)
	}
	w.history.add(e)
}

func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.Atoi(h.Get("Retry-After-Ms")); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	s, _ := strconv.Atoi(h.Get("Retry-After"))
	return time.Duration(s) * time.Second
}

// employ starts the callers of a job.
func (w *world) employ(j job, c *client, callers *sync.WaitGroup) {
	var op *semel.Operation
	if first := j.callers[0].way; first == bound || first == restarted {
		op = semel.NewOperation("")
	}
	for _, a := range j.callers {
		callers.Go(func() {
			time.Sleep(a.at)
			if a.way == restarted {
				w.restarts(j, a, c, op)
				return
			}
			w.perform(j, a, c, op)
		})
	}
}

// request makes the caller's request.
func (w *world) request(ctx context.Context, j job, a caller) *http.Request {
	body := fmt.Appendf(nil, `{"from":%q,"to":%q,"amount":%d}`, j.from, j.to, a.amount)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		w.history.add(Event{Kind: Sent, Job: j.n, Call: a.call})
	}})
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank/transfers", bytes.NewReader(body))
	if a.streams && (a.way == plain || a.way == checked || a.way == inHeader) {
		r.GetBody, r.Body = nil, &closedOnce{Reader: bytes.NewReader(body), world: w, call: a.call, job: j.n}
		if w.plan.seed.Chance(0.5, "chunked", a.call) {
			r.ContentLength = -1
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(jobHeader, strconv.Itoa(j.n))
	r.Header.Set(callHeader, strconv.Itoa(a.call))
	if a.prefers > 0 {
		r.Header.Set("Prefer", fmt.Sprintf("wait=%d", a.prefers))
	}
	return r
}

// A closedOnce body can be read once, and tells when it is closed.
type closedOnce struct {
	io.Reader
	world     *world
	job, call int
}

func (b *closedOnce) Close() error {
	b.world.history.add(Event{Kind: Closed, Job: b.job, Call: b.call})
	return nil
}

// perform makes one call and writes down what the caller is told.
func (w *world) perform(j job, a caller, c *client, op *semel.Operation) Event {
	ctx, leave := context.WithCancel(c.died)
	defer leave()
	if a.deadline > 0 {
		ctx, leave = context.WithTimeout(ctx, a.deadline)
		defer leave()
	}
	if a.cancel > 0 {
		defer time.AfterFunc(a.cancel, leave).Stop()
	}
	r := w.request(ctx, j, a)
	switch a.way {
	case inHeader:
		r.Header.Set("Idempotency-Key", j.key)
	case inContext:
		r = r.WithContext(semel.WithKey(r.Context(), j.key))
	case inOp:
		op = semel.NewOperation(j.key)
		r = r.WithContext(op.Context(r.Context()))
	case bound, shared, restarted:
		if err := op.Bind(r); err != nil {
			return w.tell(j, a, Event{Since: w.history.now()}, nil, err, op)
		}
		r = r.WithContext(op.Context(r.Context()))
	default:
		op = nil
	}
	told := Event{Since: w.history.now()}
	w.history.add(Event{Kind: Called, Job: j.n, Call: a.call, Note: a.way.String()})
	resp, err := c.do(w.defect.request(r), a)
	defer time.AfterFunc(patience, leave).Stop() // with an answer that stalls
	return w.tell(j, a, told, resp, err, op)
}

// do performs the operation in the way of callers who know of operations, or of those who bring a client of their own.
func (c *client) do(r *http.Request, a caller) (*http.Response, error) {
	hc := &http.Client{Transport: c.transport, Timeout: a.timeout}
	if a.way == checked {
		return semel.Check(hc.Do(r))
	}
	return (&semel.Client{HTTP: hc}).Do(r)
}

// tell writes down what the caller believes. An answer is believed by its status, as callers do.
func (w *world) tell(j job, a caller, e Event, resp *http.Response, err error, op *semel.Operation) Event {
	e.Kind, e.Job, e.Call, e.Err = Told, j.n, a.call, err
	var failed *semel.Error
	switch {
	case err == nil:
		body, failed := io.ReadAll(resp.Body)
		resp.Body.Close()
		e.Status, e.Body = resp.StatusCode, string(body)
		e.Replayed = resp.Header.Get("Idempotent-Replayed") == "true"
		e.Outcome = byStatus(resp.StatusCode)
		if failed != nil {
			e.Err, e.Body = failed, "" // of a reply that was handed over while it came
		}
	case errors.As(err, &failed):
		e.Outcome, e.Verdict = failed.Outcome, failed.Verdict
		if failed.Response != nil {
			e.Status = failed.Response.StatusCode
		}
	default:
		e.Note = "the error is no *semel.Error"
	}
	if c := w.defect; c.belief != nil {
		e = c.belief(e)
	}
	w.history.add(e)
	return e
}

func byStatus(status int) semel.Outcome {
	switch {
	case status == http.StatusTemporaryRedirect, status == http.StatusPermanentRedirect: // not followed: the body is gone
		return semel.NotApplied
	case status < 400:
		return semel.Applied
	case status < 500:
		return semel.NotApplied
	}
	return semel.Unknown
}

// A resumable is an operation at rest.
type resumable struct {
	job   job
	calls int
	data  []byte
}

// restarts saves the operation, performs it until the process dies, and resumes it in another.
func (w *world) restarts(j job, a caller, c *client, op *semel.Operation) {
	if err := op.Bind(w.request(context.Background(), j, a)); err != nil {
		w.history.add(Event{Kind: Told, Job: j.n, Call: a.call, Err: err, Note: "an operation cannot be bound"})
		return
	}
	data, _ := json.Marshal(op)
	told := w.perform(j, a, c, op)
	if !errors.Is(told.Err, context.Canceled) && w.plan.seed.Chance(0.5, "saved again", j.n) {
		data, _ = json.Marshal(op)
	}
	w.mu.Lock()
	w.saved = append(w.saved, resumable{j, a.call + 1, data})
	w.mu.Unlock()
	time.Sleep(a.back)
	b := a
	b.call, b.cancel, b.deadline, b.timeout = a.call+1, 0, 0, 0
	w.resume(j, b, data)
}

// resume is what the next process does.
func (w *world) resume(j job, a caller, data []byte) {
	op := new(semel.Operation)
	if err := json.Unmarshal(data, op); err != nil {
		w.history.add(Event{Kind: Told, Job: j.n, Call: a.call, Err: err, Note: "a saved operation cannot be read"})
		return
	}
	c := w.newClient()
	defer c.close()
	w.perform(j, a, c, op)
}

func (w way) String() string {
	return [...]string{"plain", "checked", "bound", "shared", "restarted", "key in the header", "key in the context", "key in an operation"}[w]
}
