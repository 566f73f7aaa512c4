package arch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	fenced   = regexp.MustCompile("(?s)```.*?```")
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInURL = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinks checks that the links of pages within this tree lead to existing files and headings.
func TestLinks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			return nil
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			pages++
			checkLinks(t, path)
		}
		return nil
	})
	if err != nil || pages < 20 {
		t.Fatalf("%d pages, %v", pages, err)
	}
}

var namedPage = regexp.MustCompile(`\bdocs/[\w/.-]+\.md\b`)

// TestNamedPages checks that each page of docs that any file of the tree names exists.
func TestNamedPages(t *testing.T) {
	t.Parallel()
	err := walk(func(name, file string) error {
		raw, err := os.ReadFile(file)
		if err != nil || !utf8.Valid(raw) {
			return err
		}
		for _, page := range namedPage.FindAllString(string(raw), -1) {
			if _, err := os.Stat(filepath.Join("..", "..", page)); err != nil {
				t.Errorf("%s names %s: %v", name, page, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSite checks that the navigation of the site (make docs) has each page of docs. Its hooks add the decisions and the
// index.
func TestSite(t *testing.T) {
	t.Parallel()
	listed := regexp.MustCompile(`[\w/.-]+\.md\b`).FindAllString(read(t, "../../scripts/docs/mkdocs.yml"), -1)
	err := walk(func(name, _ string) error {
		page, isPage := strings.CutPrefix(name, "docs/")
		if !isPage || filepath.Ext(page) != ".md" || page == "README.md" || strings.HasPrefix(page, "adr/0") || slices.Contains(listed, page) {
			return nil
		}
		t.Errorf("%s: add it to the nav of scripts/docs/mkdocs.yml", name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkLinks(t *testing.T, page string) {
	t.Helper()
	for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		to := page
		if file != "" {
			to = filepath.Join(filepath.Dir(page), file)
		}
		if _, err := os.Stat(to); err != nil {
			t.Errorf("%s: %s: %v", page, m[1], err)
		} else if anchor != "" && filepath.Ext(to) == ".md" && !slices.Contains(anchors(read(t, to)), anchor) {
			t.Errorf("%s: %s: there is no such heading", page, m[1])
		}
	}
}

// anchors returns GitHub's names for the headings of a page.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := notInURL.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		names = append(names, strings.ReplaceAll(plain, " ", "-"))
	}
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
