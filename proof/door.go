package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The headers by which the server's side of the history knows whose request it is. They say nothing to semel.
const (
	jobHeader  = "X-Job"
	callHeader = "X-Call"
	tryHeader  = "X-Attempt" // semel's Policy.AttemptHeader
)

// An arrival is one request that reached the server.
type arrival struct {
	process        *process
	n              int // of its job, from 1
	job, call, try int
	copy           bool
	client         context.Context // ends when the client is gone
	died           atomic.Bool     // its owner: nothing is settled or renewed any more
	short          atomic.Bool     // its body did not arrive whole
}

type arrivalKey struct{}

// arrivalIn returns the arrival that the context belongs to; an empty one if there is none.
func arrivalIn(ctx context.Context) *arrival {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		return a
	}
	return new(arrival)
}

// Hops of one call: what a redirect led to counts its attempts anew.
const (
	hopped   = 100 // after a 307 or 308
	answered = 200 // after a 303
)

// tryNumber tells the attempts of a call apart, over its hops.
func tryNumber(header, path string) int {
	n, _ := strconv.Atoi(header)
	switch {
	case strings.HasPrefix(path, "/v2/"):
		n += hopped
	case path != "/transfers":
		n += answered
	}
	return n
}

// door is in front of everything: it writes down what comes and goes, redirects, and sends copies.
func (p *process) door() http.Handler {
	w := p.world
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a := &arrival{process: p, client: r.Context()}
		a.job, _ = strconv.Atoi(r.Header.Get(jobHeader))
		a.call, _ = strconv.Atoi(r.Header.Get(callHeader))
		a.try = tryNumber(r.Header.Get(tryHeader), r.URL.Path)
		a.n = w.arrives(a.job)
		w.history.add(Event{Kind: Arrived, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n})
		r = r.WithContext(context.WithValue(r.Context(), arrivalKey{}, a))
		if to := w.plan.redirect; r.Method == http.MethodPost && (to == 307 || to == 308) {
			if rest, moved := strings.CutPrefix(r.URL.Path, "/v2"); !moved {
				io.Copy(io.Discard, r.Body)
				rw.Header().Set("Location", "/v2"+r.URL.Path)
				rw.WriteHeader(to)
				w.history.add(Event{Kind: Replied, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n, Status: to})
				return
			} else {
				r.URL.Path = rest
			}
		}
		if r.Body != nil {
			r.Body = &watchedBody{ReadCloser: r.Body, left: r.ContentLength, arrival: a}
		}
		inner := p.inner(a)
		if after, yes := w.plan.copied(a.job, a.n); yes && !w.calm.Load() && r.Method == http.MethodPost {
			p.duplicate(r, a, after)
		}
		p.pass(inner, rw, r, a)
	})
}

// pass lets the request in and writes the reply down.
func (p *process) pass(inner http.Handler, rw http.ResponseWriter, r *http.Request, a *arrival) {
	reply := &watchedReply{ResponseWriter: rw}
	defer func() {
		e := Event{Kind: Replied, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n, Copy: a.copy}
		e.Status, e.Body = reply.status, reply.body.String()
		e.Replayed = rw.Header().Get("Idempotent-Replayed") == "true"
		e.Code = problemCode(e.Status, e.Body)
		e.After = retryAfter(rw.Header())
		v := recover()
		if v != nil {
			e.Note = "cut"
		}
		p.world.history.add(e)
		if v != nil && !a.copy {
			panic(v)
		}
	}()
	inner.ServeHTTP(reply, r)
}

// duplicate is a proxy that sends the request again, now or much later. Nobody reads its reply.
func (p *process) duplicate(r *http.Request, a *arrival, after time.Duration) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && int64(len(body)) < r.ContentLength { // only whole requests are stored
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := p.world
	same := r.Clone(context.WithoutCancel(r.Context()))
	w.background.Go(func() {
		time.Sleep(after)
		p := w.server.Load()
		if p == nil {
			return
		}
		b := &arrival{process: p, job: a.job, call: a.call, try: a.try, copy: true, n: w.arrives(a.job)}
		var leave context.CancelFunc
		b.client, leave = context.WithCancel(same.Context())
		defer leave()
		w.history.add(Event{Kind: Arrived, Job: b.job, Call: b.call, Try: b.try, Arrival: b.n, Copy: true})
		again := same.Clone(context.WithValue(b.client, arrivalKey{}, b))
		again.Body = io.NopCloser(bytes.NewReader(body))
		p.pass(p.inner(b), nobody{}, again, b)
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// nobody reads no reply.
type nobody struct{}

func (nobody) Header() http.Header         { return make(http.Header) }
func (nobody) Write(b []byte) (int, error) { return len(b), nil }
func (nobody) WriteHeader(int)             {}

// A watchedBody notices that a request's body did not arrive whole.
type watchedBody struct {
	io.ReadCloser
	left    int64
	arrival *arrival
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if err != nil && (err != io.EOF || b.left > 0) {
		b.arrival.short.Store(true)
	}
	return n, err
}

// A watchedReply keeps what the server says.
type watchedReply struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *watchedReply) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *watchedReply) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

func (r *watchedReply) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// problemCode returns the code of an error reply, and "" of all others.
func problemCode(status int, body string) string {
	if status < 400 {
		return ""
	}
	var p struct {
		Code     string
		Original int `json:"original_status"`
	}
	if json.Unmarshal([]byte(body), &p) != nil {
		return ""
	}
	if p.Original > 0 {
		return fmt.Sprintf("%s %d", p.Code, p.Original)
	}
	return p.Code
}
