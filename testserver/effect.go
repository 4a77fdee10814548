package testserver

// An Effect says what a guarded handler does, and so what may be done about an operation whose end is not known.
type Effect int

const (
	// Once is an effect that is never run again. It counts as started with the claim. Every answer is stored, failures
	// too; a panic, or an owner that died, leaves the outcome unknown. Rate limits and authentication belong in front of
	// the guard, or their refusals are stored as well.
	Once Effect = iota

	// Marked is an effect whose handler calls [EffectStarting] before it begins, and begins only if that returns nil.
	// Until then a panic, a dead owner, a 5xx and a 401, 403, 408, 425 or 429 release the key, and any other answer is
	// stored. From then on it is as Once.
	Marked

	// Keyed is an effect all parts of which are idempotent under a [DownstreamKey]. It is run again after a panic, a dead
	// owner, a 5xx and a 401, 403, 408, 425 or 429, for as long as [Guard.DownstreamRetention] allows; any other answer
	// is stored.
	Keyed

	// Transactional is an effect that commits together with key and answer, in one transaction of the Store, which must
	// be a [Transactor]. An answer of 400 or more rolls the effect back and is stored; a panic, a 5xx and a 401, 403, 408,
	// 425 or 429 roll back everything. Nothing leaves before the commit is known.
	Transactional
)

// transient tells statuses that are about the attempt and not about the operation. They never use up a key under which
// nothing has started.
func transient(status int) bool {
	switch status {
	case 401, 403, 408, 425, 429:
		return true
	}
	return status >= 500
}
