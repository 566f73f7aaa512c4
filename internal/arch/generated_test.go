package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// TestGeneratedFiles checks that .gitattributes marks exactly the source files whose header names a generator, and that
// each of its lines matches a file. The generators themselves contain such headers.
func TestGeneratedFiles(t *testing.T) {
	t.Parallel()
	type mark struct {
		pattern   string
		generated bool
	}
	var marks []mark
	for line := range strings.Lines(read(t, "../../.gitattributes")) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] != "#" {
			marks = append(marks, mark{strings.TrimPrefix(fields[0], "/"), fields[1] == "linguist-generated"})
		}
	}
	slices.Reverse(marks) // the last line that matches counts
	texts := sources(t)
	used := map[string]bool{}
	err := walk(func(name, _ string) error {
		marked := false
		for _, m := range marks {
			if ok, err := path.Match(m.pattern, name); err != nil {
				return err
			} else if ok {
				marked, used[m.pattern] = m.generated, true
				break
			}
		}
		f, isSource := texts[name]
		if isSource && !under(name, "sdk/python/scripts") && marked != generated.MatchString(f.text[:min(len(f.text), 500)]) {
			t.Errorf("%s: marked as generated in .gitattributes: %v; its header disagrees", name, marked)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		if !used[m.pattern] {
			t.Errorf(".gitattributes: %s matches no file: remove the line", m.pattern)
		}
	}
}
