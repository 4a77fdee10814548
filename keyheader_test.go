package semel

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheOneKeyOfARequestIsFoundInAnyCasing(t *testing.T) {
	const name = "Idempotency-Key"
	for rule, c := range map[string]struct {
		header http.Header
		quoted bool
		want   string
		err    string
	}{
		"none":                                {header: http.Header{"Accept": {"x"}}},
		"nil header":                          {},
		"a name without values is none":       {header: http.Header{"Idempotency-Key": {}}},
		"canonical":                           {header: http.Header{"Idempotency-Key": {"k"}}, want: "k"},
		"lower case map key":                  {header: http.Header{"idempotency-key": {"k"}}, want: "k"},
		"mixed case map key":                  {header: http.Header{"IDEMPOTENCY-key": {"k"}}, want: "k"},
		"another name of the same length":     {header: http.Header{"Idempotency-Kex": {"k"}}},
		"spaces around are not sent":          {header: http.Header{"Idempotency-Key": {" k\t"}}, want: "k"},
		"equal lines are one key":             {header: http.Header{"Idempotency-Key": {"k", "k"}, "idempotency-key": {"k"}}, want: "k"},
		"different lines":                     {header: http.Header{"Idempotency-Key": {"k", "l"}}, err: "different values"},
		"different casings, different values": {header: http.Header{"Idempotency-Key": {"k"}, "idempotency-key": {"l"}}, err: "different values"},
		"empty":                               {header: http.Header{"Idempotency-Key": {""}}, err: "empty"},
		"only spaces":                         {header: http.Header{"Idempotency-Key": {"  "}}, err: "empty"},
		"a key and an empty line":             {header: http.Header{"Idempotency-Key": {"k", ""}}, err: "empty"},
		"bare dialect keeps quotes":           {header: http.Header{"Idempotency-Key": {`"k"`}}, want: `"k"`},
		"quoted":                              {header: http.Header{"Idempotency-Key": {`"k"`}}, quoted: true, want: "k"},
		"quoted and bare are one key":         {header: http.Header{"Idempotency-Key": {`"k"`, "k"}}, quoted: true, want: "k"},
		"escapes":                             {header: http.Header{"Idempotency-Key": {`"a\"b\\c"`}}, quoted: true, want: `a"b\c`},
		"quoted empty":                        {header: http.Header{"Idempotency-Key": {`""`}}, quoted: true, err: "empty"},
		"no closing quote":                    {header: http.Header{"Idempotency-Key": {`"k`}}, quoted: true, err: "does not end"},
		"one quote":                           {header: http.Header{"Idempotency-Key": {`"`}}, quoted: true, err: "does not end"},
		"closing quote escaped":               {header: http.Header{"Idempotency-Key": {`"k\"`}}, quoted: true, err: "does not end"},
		"parameters":                          {header: http.Header{"Idempotency-Key": {`"k";a=1`}}, quoted: true, err: "at byte 2"},
		"list":                                {header: http.Header{"Idempotency-Key": {`"k", "l"`}}, quoted: true, err: "at byte 2"},
		"wrong escape":                        {header: http.Header{"Idempotency-Key": {`"\k"`}}, quoted: true, err: "at byte 1"},
		"control character":                   {header: http.Header{"Idempotency-Key": {"\"a\x01\""}}, quoted: true, err: "at byte 2"},
	} {
		t.Run(rule, func(t *testing.T) {
			got, err := findKey(c.header, name, c.quoted)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, name)
				require.Empty(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestDroppingAKeyLeavesNoCasingBehind(t *testing.T) {
	h := http.Header{"Idempotency-Key": {"k"}, "idempotency-key": {"l"}, "IDEMPOTENCY-KEY": nil, "Accept": {"x"}}
	dropKey(h, "Idempotency-Key")
	require.Equal(t, http.Header{"Accept": {"x"}}, h)
	dropKey(nil, "Idempotency-Key")
}

func TestValidKeysAreShortVisibleASCII(t *testing.T) {
	for rule, c := range map[string]struct {
		key    string
		quoted bool
		err    string
	}{
		"uuid":                      {key: "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		"one character":             {key: "k"},
		"every visible character":   {key: visible()},
		"the longest":               {key: strings.Repeat("k", 255)},
		"empty":                     {err: "empty"},
		"too long":                  {key: strings.Repeat("k", 256), err: "256 bytes"},
		"space":                     {key: "a b", err: "' ' at byte 1"},
		"newline":                   {key: "a\nb", err: `'\n' at byte 1`},
		"delete":                    {key: "\x7f", err: "at byte 0"},
		"not ASCII":                 {key: "schlüssel", err: "at byte 4"},
		"quote, bare":               {key: `"k"`},
		"quote where it is quoted":  {key: `k"`, quoted: true, err: "at byte 1"},
		"escape where it is quoted": {key: `k\`, quoted: true, err: "at byte 1"},
	} {
		t.Run(rule, func(t *testing.T) {
			err := validKey(c.key, c.quoted)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
		})
	}
}

func visible() string {
	var b strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}

func FuzzKeyHeader(f *testing.F) {
	f.Add(`"a\"b\\c"`, true)
	f.Add("k", true)
	f.Add(`"k"`, false)
	f.Add(`"k`, true)
	f.Fuzz(func(t *testing.T, line string, quoted bool) {
		key, err := findKey(http.Header{"idempotency-KEY": {line}}, "Idempotency-Key", quoted)
		if err != nil {
			return
		}
		if key == "" {
			t.Fatalf("%q gives an empty key without an error", line)
		}
		if validKey(key, false) != nil {
			return
		}
		again, err := findKey(http.Header{"Idempotency-Key": {quoteKey(key, quoted)}}, "Idempotency-Key", quoted)
		if err != nil || again != key {
			t.Fatalf("%q is the key %q, which is written and read back as %q, %v", line, key, again, err)
		}
	})
}
