package semel

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2025, 3, 31, 12, 0, 0, 0, time.UTC)

const (
	imfNoon  = "Mon, 31 Mar 2025 12:00:00 GMT"
	imfLater = "Mon, 31 Mar 2025 12:00:02 GMT"
)

func TestRetryAfterIsReadOrLeftAloneButNeverGuessed(t *testing.T) {
	const none = time.Duration(-1)
	after := func(lines ...string) http.Header { return http.Header{"Retry-After": lines} }
	for rule, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"no header":                          {nil, none},
		"no line":                            {after(), none},
		"empty":                              {after(""), none},
		"zero":                               {after("0"), 0},
		"seconds, not ms: clients.md 25":     {after("2"), 2 * time.Second},
		"leading zeros":                      {after("007"), 7 * time.Second},
		"spaces around: clients.md 28":       {after(" 2\t"), 2 * time.Second},
		"fraction: clients.md 28":            {after("1.5"), none},
		"list: clients.md 28":                {after("2,3"), none},
		"minus":                              {after("-1"), none},
		"plus":                               {after("+1"), none},
		"unit":                               {after("2s"), none},
		"other digits":                       {after("٢"), none},
		"words":                              {after("soon"), none},
		"first readable line: clients.md 28": {after("soon", "-3", "4", "5"), 4 * time.Second},
		"epoch is a long wait: clients.md 23, 24": {
			after("1743441608"), 1743441608 * time.Second},
		"ten digits overflow: clients.md 27":    {after("10000000000"), Forever},
		"MaxInt64: clients.md 27":               {after("9223372036854775807"), Forever},
		"MaxInt64 + 1: clients.md 27":           {after("9223372036854775808"), Forever},
		"hundred digits: clients.md 27":         {after(strings.Repeat("9", 100)), Forever},
		"hundred zeros and a two":               {after(strings.Repeat("0", 100) + "2"), 2 * time.Second},
		"largest number of seconds":             {after("9223372036"), 9223372036 * time.Second},
		"IMF-fixdate: clients.md 28":            {after(imfLater), 2 * time.Second},
		"RFC 850 date: clients.md 28":           {after("Monday, 31-Mar-25 12:00:02 GMT"), 2 * time.Second},
		"asctime date: clients.md 28":           {after("Mon Mar 31 12:00:02 2025"), 2 * time.Second},
		"past date: faults.md 54":               {after("Mon, 31 Mar 2025 11:59:59 GMT"), 0},
		"date in ten years: faults.md 54":       {after("Sat, 31 Mar 2035 12:00:00 GMT"), noon.AddDate(10, 0, 0).Sub(noon)},
		"date beyond what a Duration can hold":  {after("Fri, 31 Dec 9999 23:59:59 GMT"), Forever},
		"date before what a Duration can hold":  {after("Mon, 01 Jan 0001 00:00:00 GMT"), 0},
		"impossible date":                       {after("Mon, 32 Mar 2025 12:00:02 GMT"), none},
		"date after an unreadable line":         {after("soon", imfLater), 2 * time.Second},
		"milliseconds":                          {http.Header{"Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		"milliseconds of Azure":                 {http.Header{"X-Ms-Retry-After-Ms": {"20"}}, 20 * time.Millisecond},
		"milliseconds of AWS":                   {http.Header{"X-Amz-Retry-After": {"30"}}, 30 * time.Millisecond},
		"milliseconds beat seconds":             {http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		"unreadable milliseconds do not":        {http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"1500.5"}}, 2 * time.Second},
		"milliseconds overflow":                 {http.Header{"Retry-After-Ms": {"9223372036854775807"}}, Forever},
		"first readable line of milliseconds":   {http.Header{"Retry-After-Ms": {"", "x", "7"}}, 7 * time.Millisecond},
		"milliseconds are never a date":         {http.Header{"Retry-After-Ms": {imfLater}}, none},
		"server's clock an hour behind":         {http.Header{"Retry-After": {"Mon, 31 Mar 2025 11:00:02 GMT"}, "Date": {"Mon, 31 Mar 2025 11:00:00 GMT"}}, 2 * time.Second},
		"our clock ten years behind, faults 54": {http.Header{"Retry-After": {"Sat, 31 Mar 2035 12:00:02 GMT"}, "Date": {"Sat, 31 Mar 2035 12:00:00 GMT"}}, 2 * time.Second},
		"unreadable Date":                       {http.Header{"Retry-After": {imfLater}, "Date": {"noon"}}, 2 * time.Second},
		"Date does not touch digits":            {http.Header{"Retry-After": {"3"}, "Date": {imfNoon}}, 3 * time.Second},
	} {
		t.Run(rule, func(t *testing.T) {
			got, ok := retryAfter(c.header, noon)
			if c.want == none {
				require.False(t, ok, "read as %s", got)
				require.Zero(t, got)
				return
			}
			require.True(t, ok)
			require.Equal(t, c.want, got)
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"2", "-1", "1.5", "99999999999999999999", imfLater, "Monday, 31-Mar-25 12:00:02 GMT"} {
		f.Add(s, "", imfNoon)
		f.Add("", s, "")
	}
	f.Fuzz(func(t *testing.T, after, ms, date string) {
		h := http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}, "Date": {date}}
		wait, ok := retryAfter(h, noon)
		if wait < 0 || !ok && wait != 0 {
			t.Fatalf("%q gives %s, %t", h, wait, ok)
		}
		if _, fine := digits(ms, time.Millisecond); fine && !ok {
			t.Fatalf("%q has milliseconds and gives nothing", h)
		}
	})
}
