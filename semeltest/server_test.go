package semeltest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// guarded is the reference server, as a subject.
func guarded(kind testserver.Effect) semeltest.Server {
	s := testserver.New()
	s.Guard.Effect = kind
	return transfers(s)
}

// transfers makes a bank a subject: operation n transfers the amount n.
func transfers(s *testserver.Server) semeltest.Server {
	s.Bank.Open("alice", 1<<50)
	s.Guard.Scope = func(r *http.Request) (string, error) { return "principal " + r.Header.Get("Principal"), nil }
	return semeltest.Server{
		Handler: s.Handler(),
		Request: func(n int) *http.Request {
			req, err := http.NewRequest("POST", "http://bank/transfers", strings.NewReader(fmt.Sprintf(`{"from":"alice","to":"bob","amount":%d}`, n+1)))
			if err != nil {
				panic(err)
			}
			return req
		},
		Effects: func(n int) (effects int) {
			for _, t := range s.Bank.Transfers() {
				if t.Amount == int64(n+1) {
					effects++
				}
			}
			return effects
		},
		Total:  s.Bank.Total,
		As:     func(r *http.Request, principal int) { r.Header.Set("Principal", fmt.Sprint(principal)) },
		Points: func(f testserver.Fault) { s.Guard.Fault = f },
		Lease:  15 * time.Second, Retention: 72 * time.Hour,
	}
}

func TestGuardOnce(t *testing.T) {
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server { return guarded(testserver.Once) })
}

func TestGuardMarked(t *testing.T) {
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server { return guarded(testserver.Marked) })
}

func TestGuardKeyed(t *testing.T) {
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server { return guarded(testserver.Keyed) })
}

func TestGuardTransactional(t *testing.T) {
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server { return guarded(testserver.Transactional) })
}
