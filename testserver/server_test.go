package testserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

const transfer = `{"from":"alice","to":"bob","amount":100}`

// A reply is what a client has read.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r reply) replayed() bool { return r.header.Get("Idempotent-Replayed") == "true" }

func (r reply) code() string {
	_, after, _ := strings.Cut(r.body, `"code":"`)
	code, _, _ := strings.Cut(after, `"`)
	return code
}

func post(t testing.TB, s *testserver.Server, key, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.URL+"/transfers", strings.NewReader(body))
	require.NoError(t, err)
	req.GetBody = nil // net/http must not repeat by itself
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

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

func TestTheFirstAnswerIsReplayedByteForByte(t *testing.T) {
	s := testserver.Start(t)

	first, again := post(t, s, "k", transfer), post(t, s, `"k"`, transfer)

	require.Equal(t, 201, first.status, first.body)
	require.False(t, first.replayed())
	require.Equal(t, first.body, again.body)
	require.True(t, again.replayed())
	other := post(t, s, "k", strings.Replace(transfer, "100", "101", 1))
	require.Equal(t, 422, other.status)
	require.Equal(t, "key_reused", other.code())
	require.Equal(t, 1, s.Bank.Effects("k"))
}
