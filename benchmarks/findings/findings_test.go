package findings

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A subject is what the kit is run against, set up as its documentation does.
type subject struct {
	name   string
	module string // "" for this repository
	setup  string
	run    func(*testing.T)
	only   string // the cases that run, as a regular expression; all if empty
}

var subjects = []subject{
	{"semel.Transport", "", "The zero value", transport(semelTransport), ""},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", "NewClient().StandardClient().Transport, no logger", transport(retryable), ""},
	{"failsafe-go", "github.com/failsafe-go/failsafe-go", "failsafehttp.NewRoundTripper with NewRetryPolicyBuilder().Build()", transport(failsafe), ""},
	{"rehttp", "github.com/PuerkitoBio/rehttp", "three retries on 5xx and on errors, ConstDelay of a second", transport(rehttpTransport), ""},
	{"fiber-v3", "github.com/gofiber/fiber/v3", "middleware/idempotency, header Idempotency-Key, any key valid", server(fiberV3, fiberRules), ""},
	{"fiber-v2", "github.com/gofiber/fiber/v2", "middleware/idempotency, header Idempotency-Key, any key valid", server(fiberV2, fiberRules), ""},
	{"moov-base", "github.com/moov-io/base", "idempotent.FromRequest with lru.New() before the handler, and SeenBefore; only the cases answer and key, since it keeps no answers and all others wait for one", server(moov, moovRules), "/^(answer|key)$"},
}

const (
	subjectEnv = "SEMEL_SUBJECT"
	page       = "../../docs/findings.md"
	begin      = "<!-- written by go test ./findings -update -->\n"
	end        = "<!-- end -->\n"
)

var update = flag.Bool("update", false, "write the findings into docs/findings.md")

// TestSubject runs the kit against the subject that SEMEL_SUBJECT names, and against semel without it: it fails where the
// subject breaks a rule, with the diagram of what happened.
func TestSubject(t *testing.T) {
	name := os.Getenv(subjectEnv)
	if name == "" {
		name = "semel.Transport"
	}
	for _, s := range subjects {
		if s.name == name {
			s.run(t)
			return
		}
	}
	t.Fatalf("there is no subject %q", name)
}

// A finding is a rule that a subject breaks.
type finding struct{ name, rule, found string }

func TestEveryFindingOnThePageIsFoundAgain(t *testing.T) {
	if os.Getenv(subjectEnv) != "" {
		return // the process is one that this test has started
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no line %s", page, begin)
	written, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no line %s", page, end)

	var fresh strings.Builder
	for _, s := range subjects {
		found := examine(t, s)
		section := s.section(found)
		fresh.WriteString(section)
		listed := sectionOf(written, s.name)
		for _, line := range strings.Split(listed, "\n") {
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "`")
			if strings.HasPrefix(line, "| `") && !strings.Contains(section, "| `"+name+"` |") && !*update {
				t.Errorf("%s: %q is on the page and was not found", s.name, name)
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+fresh.String()+end+after), 0o644))
	}
}

// sectionOf cuts the part about a subject out of the page.
func sectionOf(text, name string) string {
	_, rest, _ := strings.Cut(text, "## "+name+"\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}

// examine runs the kit in a process of its own, where a failure is not ours.
func examine(t *testing.T, s subject) []finding {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSubject$"+s.only, "-test.timeout=2m")
	cmd.Env = append(os.Environ(), subjectEnv+"="+s.name)
	out, err := cmd.CombinedOutput()
	found := parse(out)
	if err != nil && len(found) == 0 {
		t.Fatalf("the kit did not run against %s: %v\n%s", s.name, err, out)
	}
	return found
}

var failed = regexp.MustCompile(`^\s+--- FAIL: TestSubject/(\S+)`)

func parse(out []byte) (found []finding) {
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		if m := failed.FindSubmatch(line); m != nil {
			found = append(found, finding{name: strings.ReplaceAll(string(m[1]), "_", " ")})
			continue
		}
		if len(found) == 0 {
			continue
		}
		last := &found[len(found)-1]
		if rule, ok := strings.CutPrefix(text, "rule:"); ok {
			last.rule = strings.TrimSpace(rule)
		}
		if seen, ok := strings.CutPrefix(text, "found:"); ok && last.found == "" {
			last.found = shorten(strings.TrimSpace(seen))
		}
	}
	return found
}

var (
	response = regexp.MustCompile(`&\{(\d+ [A-Za-z ]+?) \d+ HTTP/.*<nil>\}`) // %v of an http.Response
	numbers  = regexp.MustCompile(`\{\\"operation\\":\d+`)
)

// shorten takes out what differs from run to run.
func shorten(found string) string {
	found = response.ReplaceAllString(found, "a response $1")
	found = numbers.ReplaceAllString(found, `{\"operation\":N`)
	return strings.ReplaceAll(found, "|", `\|`)
}

func (s subject) section(found []finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", s.name)
	if s.module != "" {
		fmt.Fprintf(&b, "`%s` %s: ", s.module, version(s.module))
	}
	fmt.Fprintf(&b, "%s. ", s.setup)
	if len(found) == 0 {
		b.WriteString("It keeps every rule.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "It breaks %d:\n\n| case | rule | what was seen |\n|---|---|---|\n", len(found))
	for _, f := range found {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, f.rule, f.found)
	}
	return b.String()
}

// version reads go.mod: a test binary has no list of modules.
func version(module string) string {
	mod, _ := os.ReadFile("../go.mod")
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == module {
			return f[1]
		}
	}
	return "unknown"
}
