package arch

import (
	"bytes"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// wordsMayStand reports whether a file may contain rejected words: the list itself, and files that are never
// rewritten.
func wordsMayStand(name string) bool {
	return name == "docs/glossary.md" || strings.HasPrefix(name, "migrations/") || path.Base(name) == "go.sum"
}

// TestWords checks that no file contains a word that the glossary rejects.
func TestWords(t *testing.T) {
	t.Parallel()
	replaced := map[string]string{} // rejected word in lower case → its replacement
	for _, row := range glossary(t) {
		for _, word := range row.never {
			replaced[strings.ToLower(word)] = row.word
		}
	}
	pattern := unused(slices.Sorted(maps.Keys(replaced)))
	err := walk(func(name, file string) error {
		raw, err := os.ReadFile(file)
		if err != nil || wordsMayStand(name) || !utf8.Valid(raw) {
			return err
		}
		for n, line := range bytes.Split(raw, []byte("\n")) {
			for _, found := range pattern.FindAll(line, -1) {
				t.Errorf("%s:%d: %q: docs/glossary.md says %q for it", name, n+1, found, replaced[strings.ToLower(string(found))])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unused matches each of the words, as a whole word, in upper and lower case.
func unused(words []string) *regexp.Regexp {
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(words, "|") + `)\b`)
}

func TestUnused(t *testing.T) {
	pattern := unused([]string{"teapot", "poured anew"})
	for text, want := range map[string]bool{"// a teapot": true, "Teapot(x)": true, "it is Poured Anew": true, "teapots": false, "poured": false} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
