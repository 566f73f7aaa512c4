package arch

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTableExists checks that every row of the table, and every exception, is an existing package.
func TestTableExists(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(table)), testOnly) {
		files, err := filepath.Glob(filepath.Join("..", "..", name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s is in the table of internal/arch, and there is no such package: remove the row", name)
		}
	}
	for _, h := range homes {
		for _, in := range h.in {
			if _, err := os.Stat(filepath.Join("..", "..", strings.TrimSuffix(in, "/..."))); err != nil {
				t.Errorf("%s is a home of %s, and there is no such folder: %v", in, h.prefix, err)
			}
		}
	}
}

// TestTree checks that every folder in the tree of docs/architecture.md exists.
func TestTree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	folders := treeOf(string(text))
	if len(folders) < 20 {
		t.Errorf("the tree has %d folders only: %v", len(folders), folders)
	}
	for _, folder := range folders {
		if info, err := os.Stat(filepath.Join("..", "..", folder)); err != nil || !info.IsDir() {
			t.Errorf("the tree has %s, which is no folder", folder)
		}
	}
}

var word = regexp.MustCompile("`([a-z0-9_/]+)`")

// treeOf returns the folders of the section "The tree". These are the folders of the first column. If a row names a
// single folder that ends in a slash, the second column has folders beneath it.
func treeOf(page string) (folders []string) {
	_, tree, _ := strings.Cut(page, "\n## The tree\n")
	tree, _, _ = strings.Cut(tree, "\n## ")
	for line := range strings.Lines(tree) {
		cells := strings.SplitN(line, "|", 3)
		if len(cells) < 3 {
			continue
		}
		first := word.FindAllStringSubmatch(cells[1], -1)
		for _, m := range first {
			folders = append(folders, strings.TrimSuffix(m[1], "/"))
		}
		if len(first) != 1 || !slices.Contains([]string{"cmd/", "internal/", "examples/", "test/"}, first[0][1]) {
			continue
		}
		said := regexp.MustCompile(`\([^()]*\)`).ReplaceAllString(cells[2], "")
		for _, m := range word.FindAllStringSubmatch(said, -1) {
			folders = append(folders, path.Join(first[0][1], m[1]))
		}
	}
	return folders
}

func TestTreeOf(t *testing.T) {
	t.Parallel()
	got := treeOf("# x\n\n## The tree\n\n| | |\n|---|---|\n| `api/` | `not.this` |\n| `pkg/job` `pkg/policy` | `nor` |\n" +
		"| `internal/` dispatchers | `admit` (as in `nowhere`), `dispatcher` |\n\n## More\n| `else/` | |\n")
	if want := []string{"api", "pkg/job", "pkg/policy", "internal", "internal/admit", "internal/dispatcher"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// outward lists the internal packages that packages of pkg may import: below which folder, and why.
var outward = map[string]struct{ in, reason string }{
	"internal/boundedjson": {"pkg/runtime/...", "decodes what programs say, as sessions and the grader do"},
	"internal/guest":       {"pkg/runtime/...", "the protocol between an implementation and its own program inside is nobody else's affair"},
}

func TestPublicPackagesImportNothingInternal(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for name, f := range sources(t) {
		if !strings.HasPrefix(name, "pkg/") || f.ast == nil || isTest(name) {
			continue
		}
		for _, i := range f.ast.Imports {
			to, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
			if !ours || !strings.HasPrefix(to, "internal/") {
				continue
			}
			if used[to] = true; outward[to].reason == "" || !within(path.Dir(name), outward[to].in) {
				t.Errorf("%s imports %s: what others may import stands on nothing that they may not; argue for it in internal/arch/tree_test.go", name, to)
			}
		}
	}
	for to := range outward {
		if !used[to] {
			t.Errorf("nothing of pkg imports %s any more: take it from the list of internal/arch/tree_test.go", to)
		}
	}
}

// behindWalls are the folders whose files may use compiler directives that bypass checks. See homes for imports of
// unsafe.
var behindWalls = []string{"internal/guest"}

var linkname = regexp.MustCompile(`(?m)^//go:(linkname|nosplit|norace|noescape)\b`)

func TestLinknamesAndAssemblyStayBehindWalls(t *testing.T) {
	t.Parallel()
	behind := func(name string) bool {
		return slices.ContainsFunc(behindWalls, func(w string) bool { return under(path.Dir(name), w) })
	}
	found := false
	for name, f := range sources(t) {
		if f.ast != nil && linkname.MatchString(f.text) {
			if found = true; !behind(name) {
				t.Errorf("%s: linkname and such have a home: %v", name, behindWalls)
			}
		}
	}
	err := walk(func(name, _ string) error {
		if path.Ext(name) == ".s" {
			if found = true; !behind(name) {
				t.Errorf("%s: assembly has a home: %v", name, behindWalls)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Errorf("nothing is behind %v any more: empty the list", behindWalls)
	}
}
