// Command report measures semel and its peers in interleaved passes, prints the tables of docs/performance.md in Markdown,
// and says of each bar whether it holds.
//
//	go run ./report                      # everything, about ten minutes
//	go run ./report -page ../docs/performance.md
//	go run ./report -parts stub -passes 5 -peers '^(nethttp.Client|floor|semel.*)$'
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/semel-go/semel/benchmarks"
)

var (
	parts  = flag.String("parts", "stub,loopback,pairs,soak,waits", "what to measure")
	passes = flag.Int("passes", 20, "how often each peer is measured in each case")
	slice  = flag.Duration("slice", 40*time.Millisecond, "how long one measurement lasts")
	pairs  = flag.Int("pairs", 60, "how often semel is compared with bare net/http on loopback")
	only   = flag.String("peers", "", "a regular expression of the peers to measure; the bars need net/http, floor and semel")
	page   = flag.String("page", "", "a page to write the tables into, between its marks, instead of to the standard output")
	cases  = flag.String("cases", "", "a regular expression of the cases to measure")
)

// out takes the tables.
var out io.Writer = os.Stdout

func main() {
	benchmarks.ServeIfAsked()
	flag.Parse()
	run := report
	if *page != "" {
		run = write
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// write puts the report between the marks of the page.
func write() error {
	text, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q", *page, begin, end)
	}
	var tables strings.Builder
	out = &tables
	if err := report(); err != nil {
		return err
	}
	return os.WriteFile(*page, []byte(before+begin+tables.String()+end+after), 0o644)
}

const (
	begin = "<!-- written by go run ./report -page -->\n"
	end   = "<!-- end -->\n"
)

func report() error {
	peers, err := selected()
	if err != nil {
		return err
	}
	printPeers(peers)
	var bars []bar
	for part := range strings.SplitSeq(*parts, ",") {
		fmt.Fprintln(os.Stderr, "measuring:", part)
		var judged []bar
		switch part {
		case "stub":
			judged, err = reportStub(peers)
		case "loopback":
			err = reportLoopback(peers)
		case "pairs":
			judged, err = reportPairs()
		case "soak":
			judged, err = reportSoak()
		case "waits":
			judged, err = reportWaits()
		default:
			err = fmt.Errorf("there is no part %q", part)
		}
		if err != nil {
			return err
		}
		bars = append(bars, judged...)
	}
	printBars(bars)
	return nil
}

func selected() ([]benchmarks.Peer, error) {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	var peers []benchmarks.Peer
	for _, p := range benchmarks.Peers() {
		if wanted.MatchString(p.Name) {
			peers = append(peers, p)
		}
	}
	return peers, nil
}

func printPeers(peers []benchmarks.Peer) {
	fmt.Fprintf(out, "%s, GOMAXPROCS %d, %d passes of %v\n", runtime.Version(), runtime.GOMAXPROCS(0), *passes, *slice)
	t := table{"peer", "version", "configuration"}
	t.head("peers")
	for _, p := range peers {
		t.row(p.Name, version(p.Module), p.Note)
	}
}

func version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || module == "" {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}
