package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/settings"
)

// Setting is what a program can be told, as its configuration describes it.
type Setting struct {
	Flag          string   // without dashes
	Variables     []string // of the environment: one, of the same name
	Default, Help string
}

// Settings compares the table of a program's settings in docs/operations.md with what there is, or writes it. Each has a
// variable of its flag's name, none is among those that the program had once, and there are most of them: each is one
// more thing to know for whoever runs a fleet, so one that comes takes another's place, or has an argument.
func Settings(t *testing.T, program string, all []Setting, gone settings.Gone, most int, write bool) {
	t.Helper()
	all = slices.DeleteFunc(all, func(s Setting) bool { return s.Flag == "help" || s.Flag == "version" })
	for _, s := range all {
		switch {
		case len(s.Variables) != 1 || s.Variables[0] != settings.Variable(s.Flag) || s.Help == "":
			t.Errorf("--%s: its variable is %v, its help %q", s.Flag, s.Variables, s.Help)
		case gone[s.Flag] != "":
			t.Errorf("--%s is gone, and there", s.Flag)
		}
	}
	if len(all) > most {
		t.Errorf("%d settings; %d at most", len(all), most)
	}
	page := filepath.Join(RepoRoot(t), "docs", "operations.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- settings of the "+program+", generated -->\n", "<!-- end of the "+program+"'s -->\n"
	head, rest, ok := strings.Cut(string(raw), begin)
	have, tail, too := strings.Cut(rest, end)
	names := map[string]bool{}
	for _, row := range settingsRow.FindAllStringSubmatch(string(raw), -1) {
		names[row[1]] = true
	}
	if len(names) > mostOfBoth {
		t.Errorf("%d settings of both programs; %d at most", len(names), mostOfBoth)
	}
	if !ok || !too {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	want := settingsTable(all)
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

// mostOfBoth is how many settings there are by name, those that both programs have counted once. The last that came
// without another's going is drop-ins: addresses that are not of the API, and a password in place of a bearer token, are
// for an operator to open, and no other setting says what a dispatcher serves. After it, who may come and how: an issuer of
// JWTs (what it is called, for whom its tokens are, which groups count, and where it says them), signing in there (a name, its
// secret, our own address), a certificate with its key, and for how long it is known who did what.
//
// The longest life of a waiting job (ASSAY_QUEUE_LIFE) is a promise of the fleet to its tenants, and the number of a
// fleet (ASSAY_CELL) follows from nothing on its hosts: another fleet has another.
const mostOfBoth = 58

// settingsRow finds the rows of either table.
var settingsRow = regexp.MustCompile("(?m)^\\| `(ASSAY_[A-Z_]+)` \\| `--")

func settingsTable(all []Setting) string {
	var b strings.Builder
	b.WriteString("\n| setting | flag | default | what |\n|---|---|---|---|\n")
	for _, s := range all {
		value := s.Default
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", settings.Variable(s.Flag), s.Flag, value, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s.Help))
	}
	b.WriteString("\n")
	return b.String()
}
