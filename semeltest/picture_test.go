package semeltest_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// troubled returns the history of a transfer that meets most of what a picture must show.
func troubled(t *testing.T) *semeltest.History {
	var w *semeltest.World
	synctest.Test(t, func(t *testing.T) {
		bank := testserver.New()
		w = &semeltest.World{Handler: bank.Handler(), Faults: []semeltest.Fault{
			semeltest.LoseReply(1), semeltest.NoDial(2), semeltest.CutRequest(3, 30, semeltest.RST), semeltest.Late(4, 5*time.Second),
			semeltest.CutReply(5, 100, semeltest.FIN), semeltest.Reply(6, 503, time.Second),
		}}
		bank.Guard.Fault = w.Visit
		bank.Guard.Next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.Effect(r)
			bank.Bank.ServeHTTP(rw, r)
		})
		for range 7 {
			req, err := http.NewRequest("POST", "http://bank/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":1}`))
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "a7c31c3f-29")
			if resp, err := w.RoundTrip(req); err == nil {
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, w.Close())
	})
	return w.History()
}

const diagram = `
          client                               │            │ server
       0s attempt 1 of key a7c3…-29,           │───────────▶│ arrives: POST /transfers
            LoseReply(1)                       │            │
                                               │            │ · BeforeClaim · AfterClaim
                                               │            │ ★ EFFECT of key a7c3…-29
                                               │            │ · AfterEffect · AfterSettle ·
                                               │            │   InReply
                                               │   ✗────────│ answers 201
          ✗ connection reset                   │            │
       1s attempt 2 of key a7c3…-29, NoDial(2) │            │
          ✗ connection refused                 │            │
       2s attempt 3 of key a7c3…-29,           │────────✗   │
            CutRequest(3, 30, RST)             │            │
          ✗ connection reset                   │            │
       3s attempt 4 of key a7c3…-29, Late(4,   │───────────▶│ arrives: POST /transfers
            5s)                                │            │
                                               │            │ · BeforeClaim · AfterSettle ·
                                               │            │   InReply
          201, replayed                        │◀───────────│ answers 201
       4s attempt 5 of key a7c3…-29,           │───────────▶│ arrives: POST /transfers
            CutReply(5, 100, FIN)              │            │
                                               │            │ · BeforeClaim · AfterSettle ·
                                               │            │   InReply
                                               │   ✗────────│ answers 201
          ✗ malformed MIME header line         │            │
       5s attempt 6 of key a7c3…-29, Reply(6,  │───────────▶│ arrives: POST /transfers
            503, 1s)                           │            │
          503                                  │◀───────────│ answers 503
       6s attempt 7 of key a7c3…-29            │───────────▶│ arrives: POST /transfers
                                               │            │ · BeforeClaim · AfterSettle ·
                                               │            │   InReply
          201, replayed                        │◀───────────│ answers 201
       8s copy of attempt 4, key a7c3…-29      │───────────▶│ arrives: POST /transfers
                                               │            │ · BeforeClaim · AfterSettle ·
                                               │            │   InReply
          (for nobody)                         │◀───────────│ answers 201
`

func TestHistoryIsDrawnAsText(t *testing.T) {
	got := troubled(t).String()
	require.Equal(t, strings.TrimPrefix(diagram, "\n"), got)
	for line := range strings.Lines(got) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100)
	}
}

func TestHistoryIsDrawnAsASelfContainedPicture(t *testing.T) {
	got := troubled(t).SVG(`"lost" & <found>`)
	if dir := os.Getenv("SEMEL_PICTURES"); dir != "" { // to be looked at
		require.NoError(t, os.WriteFile(dir+"/troubled.svg", []byte(got), 0o600))
	}
	d := xml.NewDecoder(strings.NewReader(got))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"&lt;found&gt;", "EFFECT of key", "✗", "copy of attempt 4"} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, strings.ReplaceAll(got, "http://www.w3.org/2000/svg", ""), "http", "nothing is loaded")
}

func TestLongHistoriesAreDrawnWithoutTheirMiddle(t *testing.T) {
	w := &semeltest.World{Faults: []semeltest.Fault{semeltest.From(semeltest.NoDial(1))}}
	defer w.Close()
	for range 1000 {
		req, err := http.NewRequest("POST", "http://bank/transfers", nil)
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		_, err = w.RoundTrip(req)
		require.Error(t, err)
	}
	got := w.History().String()
	require.Contains(t, got, "… 1700 events are left out …")
	require.Contains(t, got, "attempt 1000 of key k")
	require.Less(t, strings.Count(got, "\n"), 1000)
}
