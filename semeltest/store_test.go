package semeltest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

func TestMemStore(t *testing.T) {
	semeltest.TestStore(t, func(t *testing.T) testserver.Store { return new(testserver.MemStore) })
}

func TestMemStoreInSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, semeltest.CheckStore(t.Context(), new(testserver.MemStore)))
	})
}
