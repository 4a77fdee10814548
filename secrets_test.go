package semel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// Every way in which an operation may end, with secrets wherever a caller or a server may put them: none of them turns up
// in an error or in a log.
func TestErrorsAndLogsHoldNoSecrets(t *testing.T) {
	const secret = "hush"
	secretReply := func(status int, header ...string) step {
		return reply(status, `{"code":"x","detail":"`+secret+`"}`, append(header, "Content-Type", "application/problem+json", "Set-Cookie", "s="+secret, "X-Token", secret)...)
	}
	for _, c := range []struct {
		rule   string
		script []step
		edit   func(*semel.Transport)
		client func(*http.Client)
	}{
		{rule: "refused", script: []step{secretReply(503)}},
		{rule: "a business answer under a key from outside", script: []step{secretReply(422)}},
		{rule: "a lost reply", script: []step{lose}},
		{rule: "a cut reply", script: []step{cut(201, "X-Token", secret)}},
		{rule: "a redirect to nowhere", script: []step{redirect(303, "http://user:"+secret+"@:x/?"+secret)}},
		{rule: "a redirect that is not followed", script: []step{redirect(307, "http://api.test/?"+secret)}, client: func(c *http.Client) {
			c.CheckRedirect = func(*http.Request, []*http.Request) error { return fmt.Errorf("no") }
		}},
		{rule: "the client's timeout", script: []step{silence}, client: func(c *http.Client) { c.Timeout = time.Second }},
		{rule: "nobody listens", edit: func(tr *semel.Transport) { tr.Base = dialing(syscall.ECONNREFUSED) }},
		{rule: "no room for a retry", script: []step{secretReply(503)}, edit: func(tr *semel.Transport) { tr.MaxBody = -1 }},
		{rule: "the base breaks its contract", edit: func(tr *semel.Transport) {
			tr.Base = base(func(*http.Request) (*http.Response, error) { return nil, nil })
		}},
		{rule: "a head that is no head", script: []step{func(w http.ResponseWriter, r *http.Request) {
			conn, rw, _ := http.NewResponseController(w).Hijack()
			rw.WriteString("HTTP/1.1 200 OK\r\nSet-Cookie " + secret + "\r\n\r\n")
			rw.Flush()
			conn.Close()
		}}},
		{rule: "a reply that is no reply", script: []step{func(w http.ResponseWriter, r *http.Request) {
			conn, rw, _ := http.NewResponseController(w).Hijack()
			rw.WriteString(secret + " is not HTTP\r\n\r\n")
			rw.Flush()
			conn.Close()
		}}},
	} {
		for _, captured := range []bool{false, true} {
			t.Run(c.rule, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					var text bytes.Buffer
					log := slog.New(slog.NewJSONHandler(&text, nil))
					plain := slog.New(slog.NewTextHandler(&text, nil))
					client := s.client(func(tr *semel.Transport) {
						tr.Observe = func(a semel.Attempt) {
							log.Info("attempt", "attempt", a)
							plain.Info("attempt", "attempt", a)
						}
						if c.edit != nil {
							c.edit(tr)
						}
					})
					if c.client != nil {
						c.client(client.HTTP)
					}
					req := newRequest(t, "POST", "http://user:"+secret+"@api.test/transfers?token="+secret+"#"+secret, secret)
					req.Header.Set("Authorization", "Bearer "+secret)
					req.Header.Set("Cookie", "s="+secret)
					if captured {
						stream(req, newSource(secret), 4)
					}
					_, err := client.Do(req.WithContext(semel.WithKey(context.Background(), "k")))
					e := failed(t, err)
					log.Error("transfer", "err", err)
					plain.Error("transfer", "err", err)
					saved, err := json.Marshal(e)
					require.NoError(t, err)
					for what, s := range map[string]string{"the error": e.Error(), "%v": fmt.Sprint(e), "%+v": fmt.Sprintf("%+v", e), "the log": text.String(), "the saved operation": string(saved)} {
						require.NotContains(t, strings.ToLower(s), secret, what)
					}
					require.Contains(t, text.String(), "k", "but the key")
				}, c.script...)
			})
		}
	}
}

func TestALogTellsWhatWasDecidedAfterEachAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		var lines []map[string]any
		client := s.client(func(tr *semel.Transport) {
			tr.Retry.Backoff = func() semel.Backoff { return constant(time.Second) }
			tr.Retry.MaxAttempts = 3
			tr.Observe = func(a semel.Attempt) {
				var text bytes.Buffer
				slog.New(slog.NewJSONHandler(&text, nil)).Info("attempt", "attempt", a)
				var line map[string]any
				require.NoError(t, json.Unmarshal(text.Bytes(), &line))
				lines = append(lines, line["attempt"].(map[string]any))
			}
		})
		_, err := client.Do(s.post(t, "x").WithContext(semel.WithKey(context.Background(), "k")))
		require.ErrorIs(t, err, semel.ErrAttempts)
		require.Len(t, lines, 3)
		for i, want := range []map[string]any{
			{"method": "POST", "url": "http://api.test/transfers", "key": "k", "attempt": 1.0, "verdict": "no reply", "outcome": "unknown", "wait": 1e9, "err": io.EOF.Error()},
			{"status": 503.0, "attempt": 2.0, "verdict": "transient", "wait": 1e9},
			{"status": 429.0, "attempt": 3.0, "verdict": "transient", "stop": "no attempts left"},
		} {
			for k, v := range want {
				require.EqualValues(t, v, lines[i][k], "attempt %d: %s", i+1, k)
			}
		}
	}, lose, reply(503, ""), reply(429, ""))
}

func TestEachJudgedAttemptIsObservedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		var seen []semel.Attempt
		resp, err := s.client(func(tr *semel.Transport) { tr.Observe = func(a semel.Attempt) { seen = append(seen, a) } }).Do(s.post(t, "x"))
		require.NoError(t, err)
		read(t, resp)
		require.Len(t, seen, 3)
		for i, a := range seen {
			require.Equal(t, i+1, a.N)
			require.Equal(t, 1, a.Sends)
			require.Equal(t, s.keys(t)[0], a.Key)
			require.Equal(t, i == 2, a.Last)
			require.Equal(t, i < 2, a.Wait > 0)
			require.NoError(t, a.Stop)
			require.Equal(t, s.keys(t)[i], a.Request.Header.Get("Idempotency-Key"))
			require.Equal(t, i == 1, a.Elapsed >= time.Second)
		}
		require.ErrorIs(t, seen[0].Err, io.EOF)
		require.Nil(t, seen[0].Response)
		require.Equal(t, 503, seen[1].Response.StatusCode)
		require.NoError(t, seen[2].Err)
		require.Equal(t, []semel.Outcome{unknown, unknown, applied}, []semel.Outcome{seen[0].Outcome, seen[1].Outcome, seen[2].Outcome})
	}, lose, func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Second); w.WriteHeader(503) }, reply(201, ""))
}
