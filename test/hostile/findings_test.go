package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

var (
	findingRow = regexp.MustCompile(`^\| (\d+|[AD]\d+) `)
	quotedName = regexp.MustCompile("`([^`]+)`")
	testName   = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
)

// TestFindings compares FINDINGS.md with the tree: every finding has a row, and every attack in it
// exists. A renamed test must be renamed there, too.
func TestFindings(t *testing.T) {
	root := testenv.RepoRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "test", "hostile", "FINDINGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	have := attacksOf(t, root)
	missing := map[string]bool{"D1": true, "D3": true}
	for _, n := range strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10") {
		missing[n] = true
	}
	for row := range strings.Lines(string(text)) {
		m := findingRow.FindStringSubmatch(row)
		if m == nil {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if !missing[m[1]] || len(cells) != 5 {
			t.Errorf("%s has another row, or one of %d cells", m[1], len(cells))
			continue
		}
		delete(missing, m[1])
		attacks := quotedName.FindAllStringSubmatch(cells[2], -1)
		if len(attacks) == 0 {
			t.Errorf("nothing attacks %s", m[1])
		}
		for _, a := range attacks {
			if !have[a[1]] {
				t.Errorf("%s: there is no %s", m[1], a[1])
			}
		}
	}
	for n := range missing {
		t.Errorf("%s has no row", n)
	}
}

// attacksOf returns the names that a row may have: tests, and programs without their extensions.
func attacksOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	for _, a := range load(t) {
		have[a.Subject+"/"+a.Name] = true
	}
	attempts, err := filepath.Glob(filepath.Join(root, "test", "cheats", "attempts", "*.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts {
		have["attempts/"+strings.TrimSuffix(filepath.Base(a), ".py")] = true
	}
	for _, dir := range []string{"cmd", "guest", "internal", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range testName.FindAllSubmatch(source, -1) {
				have[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return have
}
