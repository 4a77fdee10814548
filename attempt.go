package semel

import (
	"log/slog"
	"net/http"
	"time"
)

// An Attempt is one try, and what was decided after it. It is a [slog.LogValuer] that shows neither bodies nor header
// values other than the key.
type Attempt struct {
	Request  *http.Request  // as it was sent; read-only
	Response *http.Response // nil if none came; its body belongs to the caller of the operation
	Err      error          // nil if a reply came whole

	Key     string        // "" if the operation has none
	N       int           // from 1
	Sends   int           // requests that were written for it
	Verdict Verdict       // on the reply; 0 if there was none
	Outcome Outcome       // of the operation, after this attempt
	Elapsed time.Duration // of the attempt
	Wait    time.Duration // before the next one
	Last    bool          // no further attempt follows
	Stop    error         // if Last: why it was not repeated, if it could have been
}

// LogValue makes an attempt a group of log attributes.
func (a Attempt) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 10)
	if a.Request != nil {
		attrs = append(attrs, slog.String("method", methodOf(a.Request)), slog.String("url", shortURL(a.Request.URL)))
	}
	attrs = append(attrs, slog.String("key", a.Key), slog.Int("attempt", a.N))
	if a.Sends != 1 {
		attrs = append(attrs, slog.Int("sends", a.Sends))
	}
	if a.Response != nil {
		attrs = append(attrs, slog.Int("status", a.Response.StatusCode))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("err", a.Err.Error()))
	}
	attrs = append(attrs, slog.String("verdict", a.Verdict.String()), slog.String("outcome", a.Outcome.String()), slog.Duration("elapsed", a.Elapsed))
	switch {
	case !a.Last:
		attrs = append(attrs, slog.Duration("wait", a.Wait))
	case a.Stop != nil:
		attrs = append(attrs, slog.String("stop", a.Stop.Error()))
	}
	return slog.GroupValue(attrs...)
}

// observe tells the Transport's owner of the attempt.
func (c *call) observe(y *try, wait time.Duration, last bool) {
	if c.t.Observe == nil {
		return
	}
	a := Attempt{
		Request: y.req, Response: y.resp,
		Key: c.key, N: int(y.n), Sends: y.sent(), Verdict: y.verdict, Outcome: c.outcome(),
		Elapsed: y.elapsed, Wait: wait, Last: last, Stop: c.stop,
	}
	if y.err != nil {
		a.Err = y.failure()
	}
	c.t.Observe(a)
}
