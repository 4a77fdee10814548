package semeltest

import (
	"crypto/rand"
	"fmt"

	"github.com/semel-go/semel/testserver"
)

func randomName() string { return rand.Text() }

func stateName(s testserver.State) string {
	switch s {
	case testserver.Free:
		return "free"
	case testserver.Pending:
		return "pending"
	case testserver.Completed:
		return "completed"
	case testserver.Unknown:
		return "unknown"
	case testserver.Tombstone:
		return "a tombstone"
	}
	return fmt.Sprintf("in state %d", s)
}

func renewalName(r testserver.Renewal) string {
	switch r {
	case testserver.Renewed:
		return "renewed"
	case testserver.Busy:
		return "busy"
	case testserver.Lost:
		return "lost"
	}
	return fmt.Sprintf("renewal %d", r)
}

func describe(r testserver.Record) string {
	return fmt.Sprintf("%s (owner %x, fence %d, started %t, lease left %v)", stateName(r.State), r.Owner[:4], r.Fence, r.Started, r.Left)
}
