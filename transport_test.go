package semel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOperationSurvivesLostReplies(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	var bodies []string
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		bodies = append(bodies, string(b))
		n++
		if n < 3 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(201)
		io.WriteString(w, "done")
	}))
	defer srv.Close()
	c := new(Client)
	for _, body := range []string{"hello", ""} {
		mu.Lock()
		n, keys, bodies = 0, nil, nil
		mu.Unlock()
		req, _ := http.NewRequest("POST", srv.URL, strings.NewReader(body))
		resp, err := c.Do(req)
		require.NoError(t, err)
		b, _ := io.ReadAll(resp.Body)
		require.Equal(t, "done", string(b))
		require.Len(t, keys, 3)
		require.Equal(t, keys[0], keys[2])
		require.Equal(t, []string{body, body, body}, bodies)
	}
	op := NewOperation("")
	req, _ := http.NewRequest("POST", srv.URL, strings.NewReader("x"))
	require.NoError(t, op.Bind(req))
	mu.Lock()
	n = -100
	mu.Unlock()
	_, err := c.Do(req.WithContext(op.Context(context.Background())))
	t.Log(err)
	require.ErrorIs(t, err, Unknown)
	js, _ := json.Marshal(op)
	t.Logf("%s", js)
	var op2 Operation
	require.NoError(t, json.Unmarshal(js, &op2))
	mu.Lock()
	n = 3
	mu.Unlock()
	_, err = c.Do(req.WithContext(op2.Context(context.Background())))
	require.NoError(t, err)
	require.Equal(t, Applied, op2.Outcome())
	req, _ = http.NewRequest("POST", srv.URL, strings.NewReader("y"))
	_, err = c.Do(req.WithContext(op2.Context(context.Background())))
	t.Log(err)
	require.ErrorIs(t, err, KeyReused)
	req, _ = http.NewRequest("GET", srv.URL, nil)
	_, err = c.Do(req)
	require.NoError(t, err)
}

func TestNothingIsSentToADeadServer(t *testing.T) {
	req, _ := http.NewRequest("POST", "http://127.0.0.1:1/x", strings.NewReader("y"))
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	_, err := new(Client).Do(req.WithContext(ctx))
	t.Log(err)
	require.ErrorIs(t, err, NotSent)
	require.True(t, errors.Is(err, context.DeadlineExceeded))
}
