package semel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProblemIsReadFromItsFirstBytes(t *testing.T) {
	const media = "application/problem+json"
	for rule, c := range map[string]struct {
		media, prefix string
		want          problem
	}{
		"empty":               {media, ``, problem{}},
		"whole":               {media, `{"type":"about:blank","code":"in_progress"}`, problem{code: "in_progress", typ: "about:blank"}},
		"original status":     {media, `{"code":"response_not_retained","original_status":201}`, problem{code: "response_not_retained", status: 201}},
		"plain JSON":          {"application/json; charset=utf-8", `{"code":"c"}`, problem{code: "c"}},
		"vendor JSON":         {"Application/Vnd.Api+JSON", `{"code":"c"}`, problem{code: "c"}},
		"broken parameters":   {`application/json; charset`, `{"code":"c"}`, problem{code: "c"}},
		"HTML has no members": {"text/html", `{"code":"c"}`, problem{}},
		"no content type":     {"", `{"code":"c"}`, problem{}},
		"JSON in name only":   {"application/notjson", `{"code":"c"}`, problem{}},
		"not an object":       {media, `["code","c"]`, problem{}},
		"a string":            {media, `"code"`, problem{}},
		"nested members do not count": {media, `{"error":{"code":"inner","a":[{"code":"deep"}]},"code":"outer"}`,
			problem{code: "outer"}},
		"a list of codes":             {media, `{"code":["c"],"type":{}}`, problem{}},
		"wrong types":                 {media, `{"code":409,"type":null,"original_status":"201"}`, problem{}},
		"other casing":                {media, `{"Code":"c","TYPE":"t"}`, problem{}},
		"the last of two":             {media, `{"code":"c","code":"d","type":"t","type":1}`, problem{code: "d"}},
		"fraction":                    {media, `{"original_status":201.5}`, problem{}},
		"not a status":                {media, `{"original_status":99999999999999999999}`, problem{}},
		"negative":                    {media, `{"original_status":-201}`, problem{}},
		"cut in a string":             {media, `{"type":"t","code":"in_prog`, problem{typ: "t"}},
		"cut after a string":          {media, `{"type":"t","code":"c"`, problem{code: "c", typ: "t"}},
		"cut after a comma":           {media, `{"code":"c",`, problem{code: "c"}},
		"cut in a name":               {media, `{"code":"c","original_sta`, problem{code: "c"}},
		"cut in a number":             {media, `{"original_status":20`, problem{}},
		"cut in another object":       {media, `{"code":"c","more":{"code":"d"`, problem{code: "c"}},
		"trailing comma of the draft": {media, `{"code":"c","type":"t",}`, problem{code: "c", typ: "t"}},
		"error after the code":        {media, `{"code":"c",oops`, problem{code: "c"}},
		"names idempotency":           {media, `{"title":"IDEMPOTENCY-Key is already used"}`, problem{idempotency: true}},
		"text names idempotency":      {"text/plain", "not an Idempotent request", problem{idempotency: true}},
		"in another language":         {"text/html", "clé d'idempotence", problem{idempotency: true}},
		"cut before it is named":      {"text/plain", "the idempote", problem{}},
		"binary":                      {media, "\x00\xff\xfe{", problem{}},
		"deep": {media, `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"code":"c"}`,
			problem{code: "c"}},
	} {
		t.Run(rule, func(t *testing.T) {
			require.Equal(t, c.want, readProblem(c.media, []byte(c.prefix)))
		})
	}
}

// Whatever is cut off, no member is read that differs from the whole one.
func TestACutProblemNeverTellsSomethingElse(t *testing.T) {
	const whole = `{"type":"https://example.com/p","original_status":201,"x":[1,{"code":"no"}],"code":"response_not_retained"}`
	want := readProblem("application/json", []byte(whole))
	require.Equal(t, problem{code: "response_not_retained", typ: "https://example.com/p", status: 201}, want)
	for n := range len(whole) {
		got := readProblem("application/json", []byte(whole[:n]))
		require.Contains(t, []string{"", want.code}, got.code, whole[:n])
		require.Contains(t, []string{"", want.typ}, got.typ, whole[:n])
		require.Contains(t, []int{0, want.status}, got.status, whole[:n])
	}
}

func FuzzProblem(f *testing.F) {
	f.Add("application/json", []byte(`{"code":"c","original_status":201,"a":[{}]}`))
	f.Add("application/problem+json; a", []byte(`{"type":"t",}`))
	f.Add("text/html", []byte("idempotent"))
	f.Fuzz(func(t *testing.T, media string, prefix []byte) {
		got := readProblem(media, prefix)
		if got.status != 0 && (got.status < 100 || got.status > 599) {
			t.Fatalf("status %d from %q", got.status, prefix)
		}
		var all map[string]any
		if json.Unmarshal(prefix, &all) == nil && got.code != "" && all["code"] != got.code {
			t.Fatalf("code %q from %q", got.code, prefix)
		}
	})
}
