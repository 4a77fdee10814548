// Package semel makes a retry safe: it sends an HTTP operation under one idempotency key until its outcome is known, and
// tells the caller the truth when nobody can know it.
//
// The zero [Client] is ready:
//
//	resp, err := new(semel.Client).Do(req)
//	switch {
//	case err == nil: // the answer, whatever its status
//	case errors.Is(err, semel.NotSent), errors.Is(err, semel.NotApplied): // nothing happened: fail over freely
//	default: // Unknown: ask again later, under the same key
//	}
//
// [Transport] is the same as an [http.RoundTripper], for code that brings its own client; [Check] then tells answers from
// the rest. An [Operation] that is saved before it is sent survives a restart.
package semel
