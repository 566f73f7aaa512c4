package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGlobsMatchAsDefined compares globs with a recursive definition.
func TestGlobsMatchAsDefined(t *testing.T) {
	t.Parallel()
	var matches func(pattern, name []string) bool
	matches = func(pattern, name []string) bool {
		switch {
		case len(pattern) == 0:
			return len(name) == 0
		case pattern[0] == "**":
			return matches(pattern[1:], name) || len(name) > 0 && matches(pattern, name[1:])
		case len(name) == 0:
			return false
		}
		ok, _ := path.Match(pattern[0], name[0])
		return ok && matches(pattern[1:], name[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "a", "b", "*", "a*", "?"}), 1, 7).Draw(t, "pattern")
		name := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 7).Draw(t, "name")
		g := compile([]string{"/" + strings.Join(pattern, "/")})
		live := g.start()
		for _, part := range name {
			live = g.advance(live, part)
		}
		got := len(live) == 1 && g.complete(live[0])
		if want := matches(pattern, name); got != want {
			t.Fatalf("%v on %v: %t, want %t", pattern, name, got, want)
		}
	})
}

// many makes n empty files in a directory whose names end in suffix.
func many(t *testing.T, n int, suffix string) *os.File {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%05d%s", i, suffix)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestPatternsWithoutEnd has patterns that took a second for each file.
func TestPatternsWithoutEnd(t *testing.T) {
	root := Root{"/w", many(t, 5000, strings.Repeat("a", 200))}
	for name, pattern := range map[string]string{
		"stars of directories":  "/w/" + strings.Repeat("**/", 60) + "*a*a*a*a*b%d",
		"directories and stars": "/w/" + strings.Repeat("**/*/", 30) + "**/x%d",
		"stars in a name":       "/w/**/" + strings.Repeat("*a", 100) + "b%d",
		"classes":               "/**/" + strings.Repeat("[!b]*", 60) + "%d",
	} {
		t.Run(name, func(t *testing.T) {
			var l Limits
			for i := range 64 {
				l.Paths = append(l.Paths, fmt.Sprintf(pattern, i))
			}
			began := time.Now()
			collect(t, l, root)
			if took := time.Since(began); took > lookTime+5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestTimeIsBounded ends a walk whose files are stored slowly, with one line for the rest.
func TestTimeIsBounded(t *testing.T) {
	t.Parallel()
	l := paths("/w/**", "/w/nothing")
	l.Time = 200 * time.Millisecond
	taken := 0
	refused, err := Collect(t.Context(), []Root{{"/w", many(t, 50, "")}}, l, func(ctx context.Context, _ string, _ int64, _ io.Reader) error {
		select {
		case <-time.After(30 * time.Millisecond):
			taken++
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil || taken == 0 || taken > 8 || len(refused) != 1 || !strings.Contains(refused[0], "collecting took longer than 200ms: this file and later ones were not examined") {
		t.Errorf("%d were taken, %q, %v", taken, refused, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Collect(ctx, []Root{{"/w", many(t, 5, "")}}, l, func(context.Context, string, int64, io.Reader) error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a job that is canceled: %v", err)
	}
}

// TestRecordIsBounded refuses the files for which the record has no room.
func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	l := Limits{Paths: []string{"/w/*"}, MaxFiles: 100_000, MaxBytes: 1 << 20}
	taken, refused := collect(t, l, Root{"/w", many(t, 5000, strings.Repeat("<", 200))}) // takes six bytes in JSON
	record := 0
	for _, name := range taken {
		record += recordSize(name)
	}
	if len(taken) < 2000 || record > maxRecord || len(refused) != maxRefused+1 || !strings.Contains(refused[0], "the record has no room") {
		t.Errorf("%d were taken, %d bytes of the record, %.300q", len(taken), record, refused)
	}
}

// TestLargeDirectories looks at a part of a directory that is too large, and at other directories.
func TestLargeDirectories(t *testing.T) {
	dir := many(t, 1050, "")
	taken, refused := collect(t, Limits{Paths: []string{"/w/*"}, MaxFiles: 2000, entries: 1000}, Root{"/w", dir})
	if len(taken) != 1000 || len(refused) != 1 || !strings.Contains(refused[0], "more than 1000 files to look at") {
		t.Errorf("%d were taken, %q", len(taken), refused)
	}
}
