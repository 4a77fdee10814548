package semel

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// dialects.md §4 row 17: eight processes whose clocks stand still make a million keys, and no two are equal.
func TestKeysAreUniqueOverProcessesWithAFrozenClock(t *testing.T) {
	const processes, each = 8, 125_000
	for name, newKey := range map[string]func(*http.Request) (string, error){"v4": UUIDv4, "v7": UUIDv7} {
		t.Run(name, func(t *testing.T) {
			if file := os.Getenv("SEMEL_TEST_KEYS_" + name); file != "" {
				synctest.Test(t, func(t *testing.T) { writeKeys(t, file, each, newKey) })
				return
			}
			dir := t.TempDir()
			var running []*exec.Cmd
			for i := range processes {
				cmd := exec.Command(os.Args[0], "-test.run=^TestKeysAreUniqueOverProcessesWithAFrozenClock$/^"+name+"$")
				cmd.Env = append(os.Environ(), "SEMEL_TEST_KEYS_"+name+"="+filepath.Join(dir, strconv.Itoa(i)))
				require.NoError(t, cmd.Start())
				running = append(running, cmd)
			}
			seen := make(map[string]struct{}, processes*each)
			for i, cmd := range running {
				require.NoError(t, cmd.Wait())
				raw, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
				require.NoError(t, err)
				for key := range strings.Lines(string(raw)) {
					seen[key] = struct{}{}
				}
			}
			require.Len(t, seen, processes*each, "a key was made twice")
		})
	}
}

func writeKeys(t *testing.T, file string, n int, newKey func(*http.Request) (string, error)) {
	t.Helper()
	out := make([]byte, 0, 37*n)
	for range n {
		key, err := newKey(nil)
		if err != nil || len(key) != 36 {
			t.Fatal(key, err)
		}
		out = append(append(out, key...), '\n')
	}
	require.NoError(t, os.WriteFile(file, out, 0o600))
}

func TestGeneratedKeysAreLowerCaseUUIDsOfTheirVersion(t *testing.T) {
	derive := func(*http.Request) (string, error) { return Derive("order", "1"), nil }
	for want, newKey := range map[uuid.Version]func(*http.Request) (string, error){4: UUIDv4, 7: UUIDv7, 8: derive} {
		for range 100 {
			key, err := newKey(nil)
			require.NoError(t, err)
			u, err := uuid.Parse(key)
			require.NoError(t, err)
			require.Equal(t, want, u.Version())
			require.Equal(t, uuid.RFC4122, u.Variant())
			require.Equal(t, u.String(), key, "36 lower-case characters with dashes")
		}
	}
}

func TestUUIDv7IsOrderedByTime(t *testing.T) {
	var keys []string
	for range 1000 {
		k, err := UUIDv7(nil)
		require.NoError(t, err)
		keys = append(keys, k)
	}
	require.True(t, slices.IsSorted(keys))
}

func TestDerivedKeysDifferWhereverTheirPartsDiffer(t *testing.T) {
	parts := [][]string{
		nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"a", "b", "c"},
		{"A", "BC"}, {"a\x00bc"}, {"\x00\x00\x00\x00\x00\x00\x00\x00"}, {string(make([]byte, 300))}, {string(make([]byte, 301))},
	}
	seen := map[string][]string{}
	for _, p := range parts {
		key := Derive(p...)
		require.NotContains(t, seen, key, "%q and %q give one key", seen[key], p)
		seen[key] = p
		require.Equal(t, key, Derive(slices.Clone(p)...))
	}
}

// Keys that are saved somewhere must mean the same to the next version of this package.
func TestDerivedKeysNeverChange(t *testing.T) {
	for key, parts := range map[string][]string{
		"e3b0c442-98fc-8c14-9afb-f4c8996fb924": {},
		"d0497563-13c0-8d01-a59a-48b7a0e51865": {"capture", "order-7"},
		"c02938ca-9087-837a-845d-b18b98bd24f8": {"Zürich", "", "転送"},
	} {
		require.Equal(t, key, Derive(parts...), "%q", parts)
	}
}

func FuzzDerive(f *testing.F) {
	f.Add("a", "bc", "ab", "c")
	f.Add("", "", "", "\x00")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, other := Derive(a, b), Derive(c, d)
		if (one == other) != (a == c && b == d) {
			t.Fatalf("Derive(%q, %q) = %s, Derive(%q, %q) = %s", a, b, one, c, d, other)
		}
		if one == Derive(a+b) || one == Derive(a, b, "") {
			t.Fatalf("Derive(%q, %q) is the key of other parts too", a, b)
		}
		if err := validKey(one, true); err != nil {
			t.Fatal(err)
		}
	})
}

func ExampleDerive() {
	first := Derive("capture", "order-7")
	redelivered := Derive("capture", "order-7")
	fmt.Println(first)
	fmt.Println("same operation:", first == redelivered)
	fmt.Println("another action:", first != Derive("refund", "order-7"))
	fmt.Println("other parts:   ", Derive("a", "bc") != Derive("ab", "c"))
	// Output:
	// d0497563-13c0-8d01-a59a-48b7a0e51865
	// same operation: true
	// another action: true
	// other parts:    true
}

func ExampleUUIDv4() {
	key, err := UUIDv4(nil)
	fmt.Println(len(key), err)
	// Output: 36 <nil>
}

func ExampleUUIDv7() {
	first, _ := UUIDv7(nil)
	second, _ := UUIDv7(nil)
	fmt.Println(first < second)
	// Output: true
}

func BenchmarkKeys(b *testing.B) {
	b.Run("v4", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = UUIDv4(nil)
		}
	})
	b.Run("google", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = uuid.NewString()
		}
	})
	b.Run("v7", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = UUIDv7(nil)
		}
	})
	b.Run("derive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = Derive("capture", "order-7")
		}
	})
}
