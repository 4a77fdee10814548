package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"
)

// A Store keeps the claims on keys. Every method is atomic and safe for concurrent use. An error means that the store
// itself failed and that the caller knows nothing, except for the errors that a method names.
//
// All times are the store's own: callers pass durations and get durations back, so that a node whose clock is wrong can
// neither take over too early nor expire a key too soon.
type Store interface {
	// Claim takes the key if nobody holds it, and returns the record as it then stands. The claim succeeded if
	// [Record.HeldBy] says so for the claim's owner; a repeated call with the same owner finds its own record again,
	// so a lost answer is cured by asking again.
	//
	// A claim takes
	//   - a key without a record, or with a terminal record that has expired;
	//   - a pending record whose lease has lapsed, if it carries the same fingerprint, has not started its effect and is
	//     within its RerunFor: with the claim's owner and the next fence.
	//
	// A lapsed record that may not be re-run turns Unknown, keeping owner and fence. A record with another fingerprint is
	// never touched. ErrFull means that the store takes no more keys.
	Claim(ctx context.Context, c Claim) (Record, error)

	// Renew extends the leases of many holds at once and reports on each, in their order. A hold with Started set also
	// marks its effect as started, for good. A record of the same owner and fence that had turned Unknown is Pending
	// again. Renew never waits for a locked record: it reports Busy.
	Renew(ctx context.Context, lease time.Duration, holds []Hold) ([]Renewal, error)

	// Settle ends the hold. It succeeds while the record is Pending or Unknown under the hold's owner and fence, and
	// again for the same end under the same hold, so that it can be repeated. ErrLost means that the record belongs to
	// somebody else, is gone, or has another end. Free removes the record, and is refused with ErrStarted once the
	// effect has started; a record that is already gone counts as freed. An end that comes when the retention is over is
	// kept for another: a key that was unknown for days and is then resolved must not be free for a second run at once.
	Settle(ctx context.Context, h Hold, s Settlement) error

	// Look returns the record as it stands, without changing it; its State is Free if there is none. A pending record
	// whose lease has lapsed is still Pending here, with no Left.
	Look(ctx context.Context, id ID) (Record, error)

	// Wait returns nil as soon as a pending record may have changed: settled, freed, or lapsed. It may return early;
	// the caller claims again to see. It returns the context's error when that ends first.
	Wait(ctx context.Context, id ID) error

	// Purge removes at most limit expired terminal records and returns how many. Pending and Unknown records never
	// expire.
	Purge(ctx context.Context, limit int) (int, error)
}

// A Transactor is a Store that can commit effect, key and reply together.
type Transactor interface {
	Store

	// Transact claims the key, runs work and commits its answer, all in one transaction, and returns the record as it
	// stands after. Work gets a context that carries the transaction; it runs again, with nothing of the former run
	// left, when the database asks for it. If work returns an answer with a status of 400 or more, its effect is rolled
	// back and the answer stored; if it returns an error or panics, everything is rolled back and the error returned.
	//
	// A concurrent claim of the same key waits up to wait for the first to end; then Transact returns ErrBusy. It
	// returns ErrInDoubt when nobody can know whether the transaction was committed; the next claim of the key will.
	Transact(ctx context.Context, c Claim, wait time.Duration, work func(context.Context) (*Answer, error)) (Record, error)
}

// What a store says when it works and cannot do what was asked.
var (
	ErrLost    = errors.New("testserver: the claim belongs to somebody else")
	ErrStarted = errors.New("testserver: the effect has started, so the key cannot be freed")
	ErrFull    = errors.New("testserver: the store is full")
	ErrBusy    = errors.New("testserver: the key is in use")
	ErrInDoubt = errors.New("testserver: nobody knows whether the transaction was committed")
)

// An ID names one key within its scope. Both are arbitrary bytes.
type ID struct{ Scope, Key string }

// An Owner is the random name of one claim. It is made before the store is asked, so that a claim whose answer was lost
// can be recognized.
type Owner [16]byte

// NewOwner returns a fresh random owner.
func NewOwner() (o Owner) {
	rand.Read(o[:]) // never fails, see crypto/rand
	return o
}

// A Fingerprint is the SHA-256 of a request.
type Fingerprint [32]byte

// A Claim asks for a key.
type Claim struct {
	ID          ID
	Fingerprint Fingerprint
	Owner       Owner
	Lease       time.Duration // until the owner counts as dead
	Retention   time.Duration // of the answer, counted from the first claim
	Started     bool          // the effect starts with the claim: it is never re-run
	RerunFor    time.Duration // how long after the first claim a lapsed one may be re-run; 0: without limit
}

// A Hold identifies a claim that succeeded.
type Hold struct {
	ID      ID
	Owner   Owner
	Fence   int64
	Started bool // for Renew: mark the effect as started
}

// A Renewal says what became of one hold.
type Renewal int

const (
	Renewed Renewal = iota // the lease runs anew
	Busy                   // the record is locked; the lease was not extended, the effect not marked
	Lost                   // the record belongs to somebody else, is settled or gone
)

// A State is where a record stands.
type State int

const (
	Free      State = iota // no record
	Pending                // somebody works on it
	Completed              // the answer is stored
	Unknown                // its owner died or gave up after the effect may have started
	Tombstone              // done, but the answer's body was not kept
)

// A Record is what the store knows about a key.
type Record struct {
	ID          ID
	State       State
	Fingerprint Fingerprint
	Owner       Owner
	Fence       int64 // grows with each new owner, until the key is freed
	Started     bool
	Left        time.Duration // of the lease; 0 when lapsed or not Pending
	Age         time.Duration // since the first claim
	Answer      *Answer       // of Completed and Tombstone; read-only
}

// HeldBy reports whether the owner holds the record.
func (r Record) HeldBy(o Owner) bool { return r.State == Pending && r.Owner == o }

// Hold returns what it takes to renew or settle the record.
func (r Record) Hold() Hold { return Hold{ID: r.ID, Owner: r.Owner, Fence: r.Fence} }

// A Settlement is the end of a hold: Completed or Tombstone with an answer, Unknown, or Free.
type Settlement struct {
	State  State
	Answer *Answer
}

// An Answer is a reply as it is stored and replayed. A Tombstone's has no body.
type Answer struct {
	Status int
	Header []Field // in the order in which they were sent
	Body   []byte
}

// A Field is one header line.
type Field struct{ Name, Value string }

// WriteHeader adds the answer's fields to h, in their order.
func (a *Answer) WriteHeader(h http.Header) {
	for _, f := range a.Header {
		h.Add(f.Name, f.Value)
	}
}
