//go:build unix

package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

var points = []string{beforeClaim, afterClaim, afterMark, afterEffect, afterCommit}

var soak = flag.Int("soak", 0, "operations that TestSoak performs for each kind of handler; if 0, a few hundred")

// A soakRow is one line of the table.
type soakRow struct {
	effect                               string
	operations, sent, lost, kills        int
	answered, unknown, twice, off, stuck int
	perSecond                            float64
	median, p99, longest                 time.Duration
}

// TestSoak performs operations from 64 clients at once while every fifth reply is lost and processes are killed at random
// moments. For the long run: go test -run TestSoak -soak 20000 -v
func TestSoak(t *testing.T) {
	share := 5
	if *soak > 0 {
		share = (*soak + 63) / 64
	}
	var table []soakRow
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		w := newWorld(t, 3, pgtest.DSN(t), serverSpec{Effect: effect, Conns: 16})
		table = append(table, w.soak(64, share))
	})
	out := &strings.Builder{}
	tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "handler\toperations\tsends\treplies lost\tkills\tanswered\tunknown\tdoubled\tmoney off\tstuck keys\tper second\tmedian\tp99\tlongest\t")
	for _, r := range table {
		fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%v\t%v\t%v\t\n", r.effect, r.operations, r.sent, r.lost, r.kills,
			r.answered, r.unknown, r.twice, r.off, r.stuck, r.perSecond,
			r.median.Round(time.Millisecond), r.p99.Round(time.Millisecond), r.longest.Round(time.Millisecond))
	}
	tab.Flush()
	fmt.Fprint(os.Stdout, out)
}

func (w *world) soak(clients, share int) (row soakRow) {
	begun := time.Now()
	ctx, stop := context.WithCancel(w.t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(50*time.Millisecond + rand.N(250*time.Millisecond)):
				w.servers[rand.IntN(len(w.servers))].Kill()
			}
		}
	})
	results := w.load(w.t.Context(), clients, share, func(n int, h http.Header) {
		loseEveryFifth(n, h)
		if rand.IntN(1000) == 0 {
			h.Set(killHeader, points[rand.IntN(len(points))])
		}
	})
	stop()
	killer.Wait()
	for _, s := range w.servers {
		row.kills += s.Deaths()
	}
	row.perSecond = float64(len(results)) / time.Since(begun).Seconds()
	w.judge(results)
	w.tally(&row, results)
	return row
}

// tally counts what became of the operations.
func (w *world) tally(row *soakRow, results []result) {
	w.t.Helper()
	row.effect, row.operations = effectNames[w.effect], len(results)
	effects, off := w.book()
	row.off = off
	var took []time.Duration
	for _, r := range results {
		row.sent += int(r.sent.Load())
		row.lost += int(r.lost.Load())
		took = append(took, r.took)
		if len(effects[r.name]) > 1 {
			row.twice++
		}
		if r.unknown {
			row.unknown++
		} else if r.status != 0 {
			row.answered++
		}
	}
	slices.Sort(took)
	row.median, row.p99, row.longest = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	// All clients have been told how their operation ended, so no key may still be pending.
	err := w.db.QueryRow(context.Background(), `SELECT count(*) FROM semel_keys WHERE state = 1`).Scan(&row.stuck)
	if err != nil {
		w.t.Fatal(err)
	}
	if row.stuck > 0 {
		w.t.Errorf("%d keys are stuck", row.stuck)
	}
}

// loseEveryFifth loses replies at random.
func loseEveryFifth(_ int, h http.Header) {
	if rand.IntN(5) == 0 {
		h.Set(loseHeader, "reply")
	}
}
