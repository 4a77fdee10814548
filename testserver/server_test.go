package testserver_test

import (
	"strings"
	"testing"

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
