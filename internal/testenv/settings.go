package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Setting is a setting of a program, as its configuration describes it.
type Setting struct {
	Flag          string   // without dashes
	Variables     []string // of the environment: one, of the same name
	Default, Help string
}

// Settings compares the settings table of docs/operate/settings.md with the settings of a program, or
// writes it. Each setting has a variable with its flag's name. The total is limited: each setting is
// more to learn for operators, so a new one replaces another or needs a justification.
func Settings(t *testing.T, program string, all []Setting, most int, write bool) {
	t.Helper()
	all = slices.DeleteFunc(all, func(s Setting) bool { return s.Flag == "help" || s.Flag == "version" })
	for _, s := range all {
		if len(s.Variables) != 1 || s.Variables[0] != variable(s.Flag) || s.Help == "" {
			t.Errorf("--%s: its variable is %v, its help %q", s.Flag, s.Variables, s.Help)
		}
	}
	if len(all) > most {
		t.Errorf("%d settings; %d at most", len(all), most)
	}
	page := filepath.Join(RepoRoot(t), "docs", "operate", "settings.md")
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
		t.Errorf("docs/operate/settings.md differs from the settings of the %s; write it: go test ./cmd/%s -run TestSettings -update", program, program)
	}
}

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return "ASSAY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// mostOfBoth is the number of settings by name; settings of both programs count once. The latest
// additions without a removal are:
//   - drop-ins: only an operator may open addresses outside the API and accept a password instead
//     of a bearer token, and no other setting controls what a dispatcher serves
//   - authentication: an issuer of JWTs (name, audience, groups and their claim), sign-in there
//     (client ID, secret, our public address), a certificate with its key, and the lifetime of the
//     audit log
//   - the maximum life of a waiting job (ASSAY_QUEUE_LIFE), a promise of the fleet to its tenants
//   - the number of a fleet (ASSAY_CELL), which cannot be derived from its hosts
const mostOfBoth = 58

// settingsRow matches the rows of both tables.
var settingsRow = regexp.MustCompile("(?m)^\\| `(ASSAY_[A-Z_]+)` \\| `--")

func settingsTable(all []Setting) string {
	var b strings.Builder
	b.WriteString("\n| setting | flag | default | description |\n|---|---|---|---|\n")
	for _, s := range all {
		value := s.Default
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", variable(s.Flag), s.Flag, value, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s.Help))
	}
	b.WriteString("\n")
	return b.String()
}
