package start

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// block is one fenced block of a page.
type block struct {
	kind string // the words after the fence
	text string
	line int // of its fence
}

func (b block) String() string { return fmt.Sprintf("line %d: %s", b.line, b.kind) }

// readPage returns the blocks of a page.
func readPage(t *testing.T, file string) (blocks []block) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	for i, line := range strings.Split(string(raw), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{kind: fence, line: i + 1}
		case isFence:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s: the block of %v has no end", file, open)
	}
	return blocks
}

// differs returns the first difference between an output and a page, or "".
func differs(got, want string) string {
	gotLines, wantLines := strings.Split(strings.TrimSpace(got), "\n"), strings.Split(strings.TrimSpace(want), "\n")
	for i, line := range wantLines {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " ")), "…", ".*")
		if i >= len(gotLines) || !regexp.MustCompile("^"+pattern+"$").MatchString(strings.TrimRight(gotLines[i], " ")) {
			return fmt.Sprintf("line %d is not %q", i+1, line)
		}
	}
	if len(gotLines) > len(wantLines) {
		return fmt.Sprintf("%d lines more than the page has", len(gotLines)-len(wantLines))
	}
	return ""
}

func TestOutputsAreCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"a\nb\n", "a\nb\n", true}, {"a 17 z\n", "a … z\n", true}, {"a", "b", false}, {"a\nb", "a", false}, {"a", "a\nb", false}, {"a.c", "abc", false}, {"abc", "a.c", false},
	} {
		if diff := differs(c.got, c.want); (diff == "") != c.same {
			t.Errorf("%q and %q: %q", c.got, c.want, diff)
		}
	}
}
