package semel

import (
	"errors"
	"net/http"
)

// An Error tells how an operation ended without an answer, and carries what is needed to take it up again. It matches its
// Outcome, its Verdict and its Err with [errors.Is]. It contains neither bodies nor secrets, only the key.
type Error struct {
	*Operation // never nil; Key and MarshalJSON are what a later attempt needs

	Outcome    Outcome // what the caller may believe
	Verdict    Verdict // of the last reply; 0 if there was none
	Attempts   int     // that this call made
	Sends      int     // requests that this machine wrote in this call; more than Attempts if something below repeats
	ResourceID string  // of AlreadyDone: what exists, if the API says so

	Response *http.Response // the last reply, its body in memory; nil if there was none or from RoundTrip
	Err      error          // why it stopped, and the last failure
}

// Why an operation stopped. An *[Error] matches one of these, besides its outcome.
var (
	ErrAttempts = errors.New("semel: no attempts left")
	ErrPolls    = errors.New("semel: still running when the polls were used up")
	ErrBudget   = errors.New("semel: the retry budget is empty")
	ErrWait     = errors.New("semel: the wait would be too long")
	ErrBody     = errors.New("semel: the request body cannot be sent again")
	ErrLifetime = errors.New("semel: the key is about to expire")
)
