package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// term is a row of docs/glossary.md.
type term struct {
	word, meaning, where string
	never                []string // words that are not used for it
}

var backticked = regexp.MustCompile("`([^`]+)`")

// glossary reads the tables of docs/glossary.md.
func glossary(t *testing.T) (terms []term) {
	t.Helper()
	for line := range strings.Lines(read(t, "../../docs/glossary.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[1]) == "word" {
			if strings.HasPrefix(line, "|") && len(cells) != 6 {
				t.Errorf("a row without four cells: %s", line)
			}
			continue
		}
		row := term{word: strings.TrimSpace(cells[1]), meaning: strings.TrimSpace(cells[2]), where: strings.TrimSpace(cells[3])}
		for _, m := range backticked.FindAllStringSubmatch(cells[4], -1) {
			row.never = append(row.never, m[1])
		}
		if rest := strings.Trim(backticked.ReplaceAllString(cells[4], ""), " ,"); rest != "" {
			t.Errorf("%s: %q is neither in backticks nor a comma", row.word, rest)
		}
		terms = append(terms, row)
	}
	return terms
}

// A word has one row, a word that is not used has one replacement, and the place exists.
func TestGlossary(t *testing.T) {
	terms := glossary(t)
	if len(terms) < 50 {
		t.Fatalf("%d rows only", len(terms))
	}
	words := map[string]string{} // any word, lower case → its row
	for _, row := range terms {
		for _, word := range append([]string{row.word}, row.never...) {
			if before, twice := words[strings.ToLower(word)]; twice && before != row.word {
				t.Errorf("%q is in the rows of %q and of %q", word, before, row.word)
			} else if twice && word == row.word {
				t.Errorf("%q has two rows", word)
			}
			words[strings.ToLower(word)] = row.word
		}
		place := backticked.FindStringSubmatch(row.where)
		if row.meaning == "" || place == nil {
			t.Errorf("%q has no meaning or no place", row.word)
			continue
		}
		if _, err := os.Stat(filepath.Join("../..", place[1])); err != nil {
			t.Errorf("%q: %v", row.word, err)
		}
	}
}
