package semel_test

import (
	"testing"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// Client and server are built from the same wire contract and share no code. Here they meet.
func TestClientAndServerTogether(t *testing.T) {
	for name, effect := range map[string]testserver.Effect{
		"once":          testserver.Once,
		"marked":        testserver.Marked,
		"transactional": testserver.Transactional,
	} {
		t.Run(name, func(t *testing.T) {
			semeltest.TestTogether(t, func(t *testing.T, faults ...testserver.Fault) *testserver.Server {
				s := testserver.New(faults...)
				s.Guard.Effect = effect
				return s
			})
		})
	}
}
