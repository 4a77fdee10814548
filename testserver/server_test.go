package testserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

func TestALostReplyMovesTheMoneyOnce(t *testing.T) {
	s := testserver.Start(t, testserver.LoseReply(1))

	require.Error(t, post(t, s, "k", transfer).err)
	again := post(t, s, "k", transfer)

	require.NoError(t, again.err)
	require.Equal(t, 201, again.status, again.body)
	require.True(t, again.replayed())
	require.Equal(t, "/transfers/1", again.header.Get("Location"))
	require.Equal(t, 1, s.Bank.Effects("k"))
	require.EqualValues(t, 900, s.Bank.Balance("alice"))
	require.EqualValues(t, 2000, s.Bank.Total())
}

func TestTheFirstAnswerIsReplayedByteForByte(t *testing.T) { // servers.md B31
	s := testserver.Start(t)

	first, again := post(t, s, "k", transfer), post(t, s, `"k"`, transfer)

	require.Equal(t, 201, first.status, first.body)
	require.False(t, first.replayed())
	require.Equal(t, first.body, again.body)
	require.True(t, again.replayed())
	post(t, s, "k", strings.Replace(transfer, "100", "101", 1)).is(t, 422, "key_reused")
	require.Equal(t, 1, s.Bank.Effects("k"))
}

// servers.md B1, B2, B45: many at once, with one effect and one answer. B4: over two servers as well as over one.
func TestManyAtOnce(t *testing.T) {
	for name, kind := range map[string]testserver.Effect{"once": testserver.Once, "marked": testserver.Marked, "keyed": testserver.Keyed, "transactional": testserver.Transactional} {
		for _, n := range []int{2, 10, 100} {
			for _, prefer := range []string{"wait=0", "wait=10"} {
				t.Run(fmt.Sprint(name, n, prefer), func(t *testing.T) {
					slow := testserver.At(testserver.AfterEffect, 0, testserver.Sleep(10*time.Millisecond))
					one, two := testserver.New(slow), testserver.New(slow)
					two.Bank, two.Guard.Next, two.Guard.Store = one.Bank, one.Bank, one.Guard.Store
					servers := []*testserver.Server{one, two}
					for _, s := range servers {
						s.Guard.Effect = kind
						require.NoError(t, s.Start())
						defer func() { require.NoError(t, s.Close()) }()
					}
					replies := make([]reply, n)
					var all sync.WaitGroup
					ready := make(chan struct{})
					for i := range n {
						all.Go(func() {
							<-ready
							replies[i] = post(t, servers[i%2], "k", transfer, "Prefer", prefer)
						})
					}
					close(ready)
					all.Wait()
					last := post(t, one, "k", transfer)
					require.True(t, last.replayed())
					first := 0
					for _, r := range replies {
						switch {
						case r.status == 201:
							require.Equal(t, last.body, r.body)
							if !r.replayed() {
								first++
							}
						default:
							r.is(t, 409, "in_progress")
						}
					}
					require.Equal(t, 1, first)
					require.Equal(t, 1, one.Bank.Effects("k"))
					require.EqualValues(t, 900, one.Bank.Balance("alice"))
				})
			}
		}
	}
}

func TestTheServerSpeaksBothProtocols(t *testing.T) {
	s := testserver.New()
	s.TLS = true
	require.NoError(t, s.Start())
	defer s.Close()
	require.True(t, strings.HasPrefix(s.URL, "https://127.0.0.1:"))
	resp, err := s.Client().Get(s.URL + "/accounts/alice")
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, 200, read(resp, nil).status)

	tr := s.Client().Transport.(*http.Transport).Clone()
	defer tr.CloseIdleConnections()
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetHTTP1(true)
	tr.TLSClientConfig.NextProtos = nil
	resp, err = (&http.Client{Transport: tr}).Get(s.URL + "/accounts/alice")
	require.NoError(t, err)
	require.Equal(t, 1, resp.ProtoMajor)
	require.Equal(t, 200, read(resp, nil).status)
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	s := testserver.New(testserver.At(testserver.AfterClaim, 1, testserver.Sleep(300*time.Millisecond)))
	require.NoError(t, s.Start())
	first := make(chan reply, 1)
	go func() { first <- post(t, s, "k", transfer) }()
	require.Eventually(t, func() bool { return state(t, s.Guard, "k") == testserver.Pending }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.Equal(t, 1, s.Bank.Effects("k"))
	require.Equal(t, testserver.Completed, state(t, s.Guard, "k"))
	require.Equal(t, 201, (<-first).status)
	require.NoError(t, s.Close(), "again")
}

// A client that is gone, or a silent fault, does not keep a server from closing. No goroutine is left.
func TestCloseLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, http2 := range []bool{false, true} {
		s := testserver.New(testserver.At(testserver.AfterEffect, 1, testserver.Hang))
		s.TLS = http2
		require.NoError(t, s.Start())
		ctx, gone := context.WithTimeout(t.Context(), 50*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/transfers", strings.NewReader(transfer))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		require.Error(t, read(s.Client().Do(req)).err)
		gone()
		require.NoError(t, s.Close())
		require.Equal(t, 1, s.Bank.Effects("k"))
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
}

func TestAServerThatCannotStart(t *testing.T) {
	s := testserver.New()
	require.NoError(t, s.Close(), "nothing is open")
	s.Guard.Scope = nil
	var config *testserver.ConfigError
	require.ErrorAs(t, s.Start(), &config)
}

func TestAListenerOfOnesOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := testserver.New()
	s.Listener = l
	require.NoError(t, s.Start())
	require.Equal(t, "http://"+l.Addr().String(), s.URL)
	require.Equal(t, 201, post(t, s, "k", transfer).status)
	require.NoError(t, s.Close())
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err)
}
