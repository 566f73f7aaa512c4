package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Setting is what a program can be told, as its configuration describes it.
type Setting struct{ Flag, Variable, Default, Help string }

// Settings compares the table of a program's settings in docs/operations.md with what there is, or writes it.
func Settings(t *testing.T, program string, settings []Setting, write bool) {
	t.Helper()
	page := filepath.Join(RepoRoot(t), "docs", "operations.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- settings of the "+program+", generated -->\n", "<!-- end of the "+program+"'s -->\n"
	head, rest, ok := strings.Cut(string(raw), begin)
	have, tail, too := strings.Cut(rest, end)
	if !ok || !too {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	want := settingsTable(settings)
	switch {
	case have == want:
	case write:
		if err := os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/operations.md differs from what the %s can be told; write it anew: go test ./cmd/%s -run TestSettings -update", program, program)
	}
}

func settingsTable(settings []Setting) string {
	var b strings.Builder
	b.WriteString("\n| setting | flag | default | what |\n|---|---|---|---|\n")
	for _, s := range settings {
		value := s.Default
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", s.Variable, s.Flag, value, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s.Help))
	}
	b.WriteString("\n")
	return b.String()
}
