package semel

// An Outcome is what the caller of an operation may believe. Each is an error to be matched with [errors.Is] against the
// *[Error] that [Client.Do] and [Check] return.
type Outcome int

const (
	Unknown        Outcome = iota // nobody can know: it may have happened, or may still happen; ask again under the same key
	NotSent                       // nothing left this machine under this key
	NotApplied                    // it was refused, and has had no effect
	Applied                       // it has happened
	AppliedEarlier                // it had happened before this operation sent it
)

func (o Outcome) String() string {
	switch o {
	case NotSent:
		return "not sent"
	case NotApplied:
		return "not applied"
	case Applied:
		return "applied"
	case AppliedEarlier:
		return "applied earlier"
	default:
		return "unknown"
	}
}

// Error makes an outcome an error, for errors.Is.
func (o Outcome) Error() string { return "semel: outcome " + o.String() }

// A Verdict says what one reply means for its operation, in the words of the API's [Dialect]. Each is an error, to be
// matched with [errors.Is].
type Verdict int

const (
	Final       Verdict = iota + 1 // the answer of the API itself; a repeat would bring the same
	Replay                         // an answer that the server had stored
	Running                        // an earlier attempt holds the key: ask again later
	Transient                      // no answer yet: repeat under the same key
	AlreadyDone                    // it has happened before, and the answer is not here
	KeyReused                      // the key was used for another request: never repeat
	BadKey                         // the key is missing or malformed
	Expired                        // the key is older than the server remembers
	Refused                        // a definite no that is tied to the key
	Unresolved                     // the server itself does not know; asking again does not help
)

func (v Verdict) String() string {
	switch v {
	case Final:
		return "final"
	case Replay:
		return "replay"
	case Running:
		return "running"
	case Transient:
		return "transient"
	case AlreadyDone:
		return "already done"
	case KeyReused:
		return "key reused"
	case BadKey:
		return "bad key"
	case Expired:
		return "key expired"
	case Refused:
		return "refused"
	case Unresolved:
		return "unresolved"
	default:
		return "no reply"
	}
}

// Error makes a verdict an error, for errors.Is.
func (v Verdict) Error() string { return "semel: verdict " + v.String() }
