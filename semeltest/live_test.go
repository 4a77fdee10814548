package semeltest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// The same cases run on sockets and against a live address, in real time.

func TestGuardOnSockets(t *testing.T) {
	t.Parallel()
	semeltest.TestServer(t, func(t *testing.T) semeltest.Server {
		bank := testserver.New()
		bank.Guard.Effect, bank.Guard.Lease = testserver.Keyed, 500*time.Millisecond
		s := transfers(bank)
		s.Sockets, s.Lease = true, bank.Guard.Lease
		return s
	})
}

func TestGuardAtALiveAddress(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			bank := testserver.New()
			bank.TLS = tls
			require.NoError(t, bank.Start())
			defer func() { require.NoError(t, bank.Close()) }()
			s := transfers(bank)
			s.Handler, s.URL, s.Points = nil, bank.URL, nil
			s.TLS = bank.Client().Transport.(*http.Transport).TLSClientConfig
			require.NoError(t, semeltest.CheckServer(t.Context(), s))
		})
	}
}
