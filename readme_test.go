package semel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// prelude is what the README's snippets take for granted.
const prelude = `package snippets

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

var _ = json.Marshal
var _ = errors.Is
var _ = strings.NewReader
var _ testserver.Point
var _ http.Request
var _ semel.Client

func keep(*semel.Operation)      {}
func store(saved []byte, body string) {}
func pay(url string)             {}

func payOrder(context.Context, *http.Client, int) error { return nil }
func believed(error) semel.Outcome                      { return semel.Unknown }
func newAPI() http.Handler                              { return nil }
func newOrder(n int) *http.Request                      { return nil }
func ordersMade(n int) int                              { return 0 }

var _ semeltest.End

func snippet(t *testing.T, ctx context.Context, req *http.Request, body string%s) error {
%s
%s
return nil
}
`

// TestREADMECompiles builds every Go snippet of the README, each as the body of a function.
func TestREADMECompiles(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	dir, err := filepath.Abs("examples/snippets")
	require.NoError(t, err)
	snippets := strings.Split(string(text), "```go\n")[1:]
	require.NotEmpty(t, snippets)
	scratch := t.TempDir()
	for i, s := range snippets {
		s, _, _ = strings.Cut(s, "```")
		var param, use string
		if !strings.Contains(s, "client := ") {
			param = ", client *semel.Client"
		}
		for _, name := range []string{"resp", "err", "effects", "client"} {
			if strings.Contains(s, name) {
				use += "_ = " + name + "\n"
			}
		}
		file := filepath.Join(scratch, fmt.Sprintf("snippet%d.go", i))
		s = strings.Replace(s, "req, _ := ", "req, _ = ", 1)
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, prelude, param, s, declared(s, use)), 0o600))
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, "snippet.go"): file}})
		require.NoError(t, err)
		overlayFile := filepath.Join(scratch, "overlay.json")
		require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
		out, err := exec.Command("go", "build", "-overlay", overlayFile, "./examples/snippets").CombinedOutput()
		require.NoError(t, err, "snippet %d of the README:\n%s\n%s", i+1, s, out)
	}
}

// declared keeps the uses of names that the snippet declares at its top.
func declared(snippet, uses string) string {
	var b strings.Builder
	for line := range strings.Lines(uses) {
		name := strings.TrimSpace(strings.TrimPrefix(line, "_ = "))
		for top := range strings.Lines(snippet) {
			left, _, ok := strings.Cut(top, ":=")
			if ok && !strings.HasPrefix(top, "\t") && !strings.HasPrefix(top, "if") && strings.Contains(left, name) {
				b.WriteString(line)
				break
			}
		}
	}
	return b.String()
}
