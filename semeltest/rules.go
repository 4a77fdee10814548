package semeltest

import (
	"net/http"
	"strings"
)

// Rules say how the API spells idempotency, where it differs from the wire contract of package testserver. The zero Rules
// are that contract.
type Rules struct {
	Header   string // carries the key; if empty, Idempotency-Key
	Quoted   bool   // the key is sent in double quotes, as a structured field string
	Replayed string // the header line that marks an answer as stored; if empty, "Idempotent-Replayed: true"; if "-", none

	// Status is that of a refusal, by its code: in_progress (409), key_reused (422), key_missing (400), key_invalid (400),
	// outcome_unknown (409). A negative one says that the API does not refuse this.
	Status map[string]int

	// Body words a refusal for client code that reads it: its content type and its bytes. If nil, refusals are
	// application/problem+json with the code.
	Body func(code string) (contentType, body string)
}

func (r *Rules) header() string {
	if r.Header == "" {
		return "Idempotency-Key"
	}
	return r.Header
}

// setKey puts the key on a request.
func (r *Rules) setKey(req *http.Request, key string) {
	if r.Quoted {
		key = `"` + key + `"`
	}
	req.Header.Set(r.header(), key)
}

// status is that of a refusal; negative if the API has none.
func (r *Rules) status(code string) int {
	if s, ok := r.Status[code]; ok {
		return s
	}
	switch code {
	case "in_progress", "outcome_unknown":
		return http.StatusConflict
	case "key_reused":
		return http.StatusUnprocessableEntity
	}
	return http.StatusBadRequest
}

// marker is the header that marks an answer as stored; the name is empty if there is none.
func (r *Rules) marker() (name, value string) {
	if r.Replayed == "-" {
		return "", ""
	}
	line := r.Replayed
	if line == "" {
		line = "Idempotent-Replayed: true"
	}
	name, value, _ = strings.Cut(line, ":")
	return strings.TrimSpace(name), strings.TrimSpace(value)
}
