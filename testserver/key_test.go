package testserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsAKey(t *testing.T) {
	for _, tt := range []struct{ name, field, key string }{
		{"bare", `8e03978e-40d5`, `8e03978e-40d5`},
		{"quoted is the same as bare", `"8e03978e-40d5"`, `8e03978e-40d5`},
		{"space around the field does not count", " \tk\t ", `k`},
		{"quoted may have spaces and commas", `" a, b "`, ` a, b `},
		{"an escaped quote is a quote", `"a\"b"`, `a"b`},
		{"and is the same as the bare one", `a"b`, `a"b`},
		{"an escaped backslash is a backslash", `"a\\b"`, `a\b`},
		{"and is the same as the bare one", `a\b`, `a\b`},
		{"255 bytes", strings.Repeat("k", 255), strings.Repeat("k", 255)},
		{"255 bytes, quotes not counted", `"` + strings.Repeat("k", 255) + `"`, strings.Repeat("k", 255)},
		{"256 bytes", strings.Repeat("k", 256), ""},
		{"a megabyte", strings.Repeat("k", 1<<20), ""},
		{"empty", "", ""},
		{"only space", " ", ""},
		{"empty quoted", `""`, ""},
		{"one quote", `"`, ""},
		{"no closing quote", `"k`, ""},
		{"the closing quote is escaped", `"k\"`, ""},
		{"another escape", `"a\n"`, ""},
		{"something after the quotes", `"a"b`, ""},
		{"a parameter", `"a";v=1`, ""},
		{"two fields joined", `"a", "b"`, ""},
		{"two bare fields joined", `a, b`, ""},
		{"two bare fields joined tightly", `a,b`, ""},
		{"space within a bare key", `a b`, ""},
		{"a control byte", "a\x01b", ""},
		{"a control byte in quotes", "\"a\x1fb\"", ""},
		{"a line feed", "a\nb", ""},
		{"NUL", "a\x00", ""},
		{"DEL", "a\x7f", ""},
		{"not ASCII", "clé", ""},
		{"not ASCII in quotes", `"clé"`, ""},
		{"not UTF-8", "\xff", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, err := requestKey(http.Header{"Idempotency-Key": {tt.field}}, "Idempotency-Key")
			require.Equal(t, tt.key, key)
			require.Equal(t, tt.key == "", err != nil)
			require.NotErrorIs(t, err, errNoKey)
		})
	}
	for name, fields := range map[string][]string{"two": {"a", "b"}, "two equal": {"a", "a"}, "the second empty": {"a", ""}} {
		_, err := requestKey(http.Header{"Idempotency-Key": fields}, "Idempotency-Key")
		require.Error(t, err, name)
	}
	_, err := requestKey(http.Header{}, "Idempotency-Key")
	require.ErrorIs(t, err, errNoKey)
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b"`, `a\b`, `"`, "", "a,b", `"a","b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		key, err := requestKey(http.Header{"K": {field}}, "K")
		if err != nil {
			if key != "" {
				t.Errorf("%q: an error and the key %q", field, key)
			}
			return
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := requestKey(http.Header{"K": {quoted}}, "K")
		if err != nil || again != key {
			t.Errorf("%q is the key %q, but its quoted form %q is %q: %v", field, key, quoted, again, err)
		}
	})
}
