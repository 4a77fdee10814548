package semel

import (
	"net/http"
	"time"
)

// Forever switches a limit off.
const Forever = time.Duration(1<<63 - 1)

// A Dialect is how one API spells idempotency. It is data: copy one and change a field. The zero Dialect is what most
// APIs do: a bare key in Idempotency-Key on POST and PATCH.
type Dialect struct {
	// Header carries the key; if empty, Idempotency-Key.
	Header string
	// InBody says that the key is in the request body, where the caller has put it. No header is sent.
	InBody bool
	// Quoted sends the key as a structured field string, in double quotes.
	Quoted bool
	// Valid refuses keys that the API would refuse, before anything is sent. If nil, 1 to 255 visible ASCII characters.
	Valid func(key string) error
	// Methods take a key; if nil, POST and PATCH. An empty, non-nil slice is an API without keys.
	Methods []string
	// Lifetime is how long the API remembers a key, counted from the operation's beginning; if 0, 24 hours. No attempt
	// starts that could end after it.
	Lifetime time.Duration
	// Replayed tells an answer that the server had stored; if nil, the header "Idempotent-Replayed: true" does.
	Replayed func(*http.Response) bool
	// ShouldRetry names a response header with an explicit "true" or "false"; if empty, none is read.
	ShouldRetry string
	// MinWait is the shortest wait before a repeat that the API asks for.
	MinWait time.Duration
	// Extra adds headers to each attempt, with the time of the operation's beginning.
	Extra func(h http.Header, begun time.Time)
	// FailuresRollBack says that a 5xx proves that nothing happened.
	FailuresRollBack bool
	// Classify reads a reply and the first bytes of its body, if its status is 400 or more. It must not read the body
	// itself. The string is the resource of AlreadyDone. Verdict 0 leaves the reply to the default reading.
	Classify func(resp *http.Response, prefix []byte) (Verdict, string)
}

// None is for APIs without keys: an operation is repeated only if its method is idempotent or nothing was processed.
var None = Dialect{Methods: []string{}}
