package pgstore

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// bank returns the bank on the store's database, and a server that guards it.
func bank(t testing.TB, s *Store, effect testserver.Effect) (*testserver.Bank, *testserver.Guard, *httptest.Server) {
	t.Helper()
	ledger := &Ledger{DB: s.DB}
	require.NoError(t, ledger.CreateSchema(t.Context()))
	b := &testserver.Bank{Ledger: ledger}
	b.Open("alice", 1000)
	b.Open("bob", 1000)
	g := &testserver.Guard{Next: b, Store: s, Scope: testserver.GlobalScope, Effect: effect}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return b, g, server
}

// post sends a transfer of 10 and returns status, replay mark and body.
func post(t testing.TB, url, key, more string) (int, bool, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":10`+more+`}`))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", "wait=5")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body strings.Builder
	_, err = fmt.Fprint(&body, resp.Header.Get("Location"), " ")
	require.NoError(t, err)
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		body.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return resp.StatusCode, resp.Header.Get("Idempotent-Replayed") == "true", body.String()
}

func TestBank(t *testing.T) {
	for name, effect := range map[string]testserver.Effect{
		"once": testserver.Once, "marked": testserver.Marked, "keyed": testserver.Keyed, "transactional": testserver.Transactional,
	} {
		t.Run(name, func(t *testing.T) {
			s := empty(t)
			b, _, server := bank(t, s, effect)
			status, replayed, first := post(t, server.URL, "k", "")
			require.Equal(t, 201, status, first)
			require.False(t, replayed)
			status, replayed, again := post(t, server.URL, "k", "")
			require.Equal(t, 201, status)
			require.True(t, replayed)
			require.Equal(t, first, again)
			require.Equal(t, 1, b.Effects("k"))
			status, _, body := post(t, server.URL, "k", ` `)
			require.Equal(t, 422, status, body)
			require.EqualValues(t, 990, b.Balance("alice"))
			require.EqualValues(t, 2000, b.Total())

			status, _, first = post(t, server.URL, "refused", `,"reference":"r"`)
			require.Equal(t, 201, status, first)
			status, replayed, first = post(t, server.URL, "refused2", `,"reference":"r"`)
			require.Equal(t, 409, status, first)
			require.False(t, replayed)
			status, replayed, again = post(t, server.URL, "refused2", `,"reference":"r"`)
			require.Equal(t, 409, status)
			require.True(t, replayed, "a refusal is an answer")
			require.Equal(t, first, again)
			require.Equal(t, 0, b.Effects("refused2"))
		})
	}
}

func TestBankRunsOneOfManyDuplicates(t *testing.T) { // B1, B4: two servers, one database
	for name, effect := range map[string]testserver.Effect{"once": testserver.Once, "transactional": testserver.Transactional} {
		t.Run(name, func(t *testing.T) {
			s := empty(t)
			b, _, one := bank(t, s, effect)
			_, _, two := bank(t, open(t, s.DB.Config().ConnString()), effect)
			var wg sync.WaitGroup
			for i := range 8 {
				for n := range 6 {
					wg.Go(func() {
						url := []string{one.URL, two.URL}[n%2]
						for range 20 {
							status, _, body := post(t, url, fmt.Sprint("k", i), "")
							if status == 201 {
								return
							}
							if status != 409 {
								t.Error(status, body)
							}
						}
						t.Error("no answer")
					})
				}
			}
			wg.Wait()
			for i := range 8 {
				require.Equal(t, 1, b.Effects(fmt.Sprint("k", i)))
			}
			require.EqualValues(t, 1000-8*10, b.Balance("alice"))
			require.EqualValues(t, 2000, b.Total())
		})
	}
}
