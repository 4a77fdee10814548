package semel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// An Error tells how an operation ended without an answer, and carries what is needed to take it up again. It matches its
// Outcome, its Verdict and its Err with [errors.Is]. It contains neither bodies nor secrets, only the key.
type Error struct {
	*Operation // never nil; its Key and its JSON are what a later attempt needs

	Outcome    Outcome // what the caller may believe
	Verdict    Verdict // of the last reply; 0 if there was none
	Attempts   int     // that were made
	Sends      int     // requests that this machine wrote for them; more than Attempts if something below repeats
	ResourceID string  // of AlreadyDone: what exists, if the API says so

	Response *http.Response // from Client.Do and Check: the last reply, its body in memory; nil if there was none
	Err      error          // why it stopped, and the last failure
}

// Why an operation stopped. An *[Error] matches one of these, besides its outcome.
var (
	ErrAttempts = errors.New("no attempts left")
	ErrPolls    = errors.New("still running when the polls were used up")
	ErrBudget   = errors.New("the retry budget of this host is empty")
	ErrWait     = errors.New("the next wait is too long")
	ErrBody     = errors.New("the request body cannot be sent again")
	ErrLifetime = errors.New("the server may forget the key too soon")
)

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("semel: ")
	if key := e.Key(); key != "" {
		fmt.Fprintf(&b, "key %s: ", key)
	}
	b.WriteString(e.Outcome.String())
	switch {
	case e.Attempts == 0:
		b.WriteString(", nothing was sent now")
	case e.Sends != e.Attempts:
		fmt.Fprintf(&b, " after %s and %s", count(e.Attempts, "attempt"), count(e.Sends, "send"))
	default:
		fmt.Fprintf(&b, " after %s", count(e.Attempts, "attempt"))
	}
	if e.Verdict != 0 {
		fmt.Fprintf(&b, ", verdict %s", e.Verdict.String())
		if e.Response != nil {
			fmt.Fprintf(&b, " (%d)", e.Response.StatusCode)
		}
	}
	if e.ResourceID != "" {
		fmt.Fprintf(&b, ", resource %s", e.ResourceID)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", e.Err)
	}
	b.WriteString("; ")
	b.WriteString(e.advice())
	return b.String()
}

// advice says what the outcome means and what to do.
func (e *Error) advice() string {
	switch {
	case e.Verdict == KeyReused && e.Outcome != Unknown:
		return "this key stands for another request: a new operation needs a new key"
	case e.Outcome == NotSent:
		return "nothing left this machine under this key: it is safe to send it elsewhere"
	case e.Outcome == NotApplied:
		return "it has had no effect: it is safe to send it elsewhere"
	case e.Outcome == Applied:
		return "it has happened: ask again under the same key for the answer"
	case e.Outcome == AppliedEarlier:
		return "it had happened before: look it up, do not repeat it under a new key"
	case e.Key() == "":
		return "it may have happened or may still happen: look before repeating it, for it had no key"
	default:
		return "it may have happened or may still happen: ask again later under the same key, never under a new one"
	}
}

// LogValue shows in a log what Error says; without it a JSON log would show the saved operation alone.
func (e *Error) LogValue() slog.Value { return slog.StringValue(e.Error()) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Unwrap gives errors.Is and errors.As the outcome, the verdict and the cause.
func (e *Error) Unwrap() []error {
	errs := make([]error, 1, 3)
	errs[0] = e.Outcome
	if e.Verdict != 0 {
		errs = append(errs, e.Verdict)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// Timeout reports whether the operation ended because time ran out, as net.Error has it.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.As(e.Err, &t) && t.Timeout()
}

// refusal is the error of something that was not sent.
func refusal(op *Operation, v Verdict, why error) *Error {
	op.lock()
	defer op.unlock()
	return op.refuse(v, why)
}

// refuse is refusal for callers that hold op.mu.
func (op *Operation) refuse(v Verdict, why error) *Error {
	return &Error{Operation: op, Outcome: op.history.outcome(), Verdict: v, Err: why}
}

// join puts what is not nil into one error, in one line.
func join(errs ...error) (err error) {
	for _, e := range errs {
		switch {
		case err == nil:
			err = e
		case e != nil:
			err = fmt.Errorf("%w: %w", err, e)
		}
	}
	return err
}

// A beneath is a cause that another operation's *Error is part of: the base could not fetch a token with a client of this
// package, or the context was cancelled because something beside it failed. What that says of the other operation must
// not be taken for this one's.
type beneath struct{ err error }

// hide returns err, or what may be shown of it if it has an *Error of another operation in it.
func hide(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return beneath{err}
	}
	return err
}

func (b beneath) Error() string { return b.err.Error() }

func (b beneath) Is(target error) bool {
	switch target.(type) {
	case Outcome, Verdict, *Error:
		return false
	}
	return errors.Is(b.err, target)
}

func (b beneath) As(target any) bool {
	switch target.(type) {
	case *Outcome, *Verdict, **Error:
		return false
	}
	return errors.As(b.err, target)
}

// A muted error stands for one whose text quotes what the server sent.
type muted struct {
	text string
	err  error
}

func (m muted) Error() string { return m.text }

func (m muted) Unwrap() error { return m.err }

// mute replaces the text of an error in which net/http quotes the server.
func mute(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for quoting, instead := range map[string]string{
		"malformed MIME header":           "the head of the reply is malformed",
		"malformed HTTP":                  "the head of the reply is malformed",
		"failed to parse Location header": "the Location of the reply cannot be read",
	} {
		if strings.Contains(text, quoting) {
			return muted{instead, err}
		}
	}
	return err
}
