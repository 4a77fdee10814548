package pgtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A hearing is a test whose failure is what is asked for.
type hearing struct {
	testing.TB
	said string
}

func (h *hearing) Errorf(format string, args ...any) { h.said += fmt.Sprintf(format, args...) }

func TestAConnectionThatIsNotGivenBackFailsTheTestInsteadOfHangingIt(t *testing.T) {
	config, err := pgxpool.ParseConfig(DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := Pool(t, config)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	h := &hearing{TB: t}
	closePool(h, pool, 100*time.Millisecond)
	if !strings.Contains(h.said, "1 of its connections") || !strings.Contains(h.said, "goroutine ") {
		t.Errorf("it says %q", h.said)
	}
}
