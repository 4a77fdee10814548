package testserver

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

const problemBase = "https://github.com/semel-go/semel/blob/main/docs/problems.md#"

// A problem is a reply of the guard itself, in the form of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`

	OriginalStatus int `json:"original_status,omitempty"` // of response_not_retained

	location   string
	retryAfter time.Duration
}

// The wire contract: one title and status per code.
var (
	keyMissing          = problem{Code: "key_missing", Status: http.StatusBadRequest, Title: "The request needs an idempotency key"}
	keyInvalid          = problem{Code: "key_invalid", Status: http.StatusBadRequest, Title: "The idempotency key is malformed"}
	bodyIncomplete      = problem{Code: "body_incomplete", Status: http.StatusBadRequest, Title: "The request body did not arrive whole"}
	scopeRefused        = problem{Code: "scope_refused", Status: http.StatusForbidden, Title: "It is not known whose key this is"}
	inProgress          = problem{Code: "in_progress", Status: http.StatusConflict, Title: "An earlier request with this key is being processed"}
	outcomeUnknown      = problem{Code: "outcome_unknown", Status: http.StatusConflict, Title: "Nobody knows whether the operation happened"}
	responseNotRetained = problem{Code: "response_not_retained", Status: http.StatusGone, Title: "The operation has ended, but its answer was not kept"}
	keyExpired          = problem{Code: "key_expired", Status: http.StatusPreconditionFailed, Title: "The key is older than this server remembers"}
	bodyTooLarge        = problem{Code: "body_too_large", Status: http.StatusRequestEntityTooLarge, Title: "The request body is too large for a key"}
	keyReused           = problem{Code: "key_reused", Status: http.StatusUnprocessableEntity, Title: "The key was used for another request"}
	misconfigured       = problem{Code: "misconfigured", Status: http.StatusInternalServerError, Title: "The guard is not set up"}
	replyRefused        = problem{Code: "reply_refused", Status: http.StatusInternalServerError, Title: "The reply cannot be stored, so the operation was rolled back"}
	storeUnavailable    = problem{Code: "store_unavailable", Status: http.StatusServiceUnavailable, Title: "The key cannot be claimed now"}
	commitInDoubt       = problem{Code: "commit_in_doubt", Status: http.StatusServiceUnavailable, Title: "It is not known yet whether the operation was committed"}
)

var stillUnknown = outcomeUnknown.because("It may have happened, or may still happen. It will not be run again; repeats with the same key tell once it is known.")

func (p problem) because(detail string) problem {
	p.Detail = detail
	return p
}

func (p problem) after(d time.Duration) problem {
	p.retryAfter = max(d, time.Millisecond)
	return p
}

// answer returns the problem as a reply. Retry-After has whole seconds (RFC 9110 section 10.2.3), at least one;
// Retry-After-Ms says the same more precisely.
func (p problem) answer() *Answer {
	p.Type = problemBase + p.Code
	body, err := json.Marshal(p)
	if err != nil { // strings and integers always marshal
		body = []byte("{}")
	}
	a := &Answer{Status: p.Status, Body: append(body, '\n'), Header: []Field{
		{"Cache-Control", "no-store"},
		{"Content-Type", "application/problem+json"},
	}}
	if p.location != "" {
		a.Header = append(a.Header, Field{"Location", p.location})
	}
	if p.retryAfter > 0 {
		ms := (p.retryAfter + time.Millisecond - 1) / time.Millisecond
		a.Header = append(a.Header,
			Field{"Retry-After", strconv.FormatInt(int64((ms+999)/1000), 10)},
			Field{"Retry-After-Ms", strconv.FormatInt(int64(ms), 10)})
	}
	return a
}
