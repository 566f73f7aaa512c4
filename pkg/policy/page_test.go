package policy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

var update = flag.Bool("update", false, "write the table of docs/enforcement.md instead of comparing it")

//go:generate go test -run TestPolicyPage -update

const (
	policyPage = "../../docs/enforcement.md"
	tableBegin = "<!-- what follows is generated from pkg/policy: go generate ./pkg/policy -->\n"
	tableEnd   = "<!-- end of what is generated -->\n"
)

// ways names the ways of a capability with several rows in the code's table, in the order of the table.
var ways = map[string][]string{
	"stack":        {"default", "a size"},
	"subprocesses": {"`true`", "`false`"},
	"read":         {"no paths", "paths"},
	"network":      {"`none`", "`allow`", "`open`"},
	"env.secrets":  {"none", "some"},
	"imports":      {"no rules", "rules"},
	"packages":     {"none", "some"},
	"syscalls":     {"`default`", "`strict`"},
	"callbacks":    {"none", "some"},
	"artifacts":    {"none", "some"},
}

// TestPolicyPage checks that the page's table equals the code's, for every field, kind of program and
// isolation.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile(policyPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := bytes.Cut(page, []byte(tableBegin))
	old, after, ends := bytes.Cut(rest, []byte(tableEnd))
	if !begins || !ends {
		t.Fatalf("%s has no place for the table: %s…%s", policyPage, tableBegin, tableEnd)
	}
	table := enforcementTable(t)
	if *update {
		whole := slices.Concat(before, []byte(tableBegin), []byte(table), []byte(tableEnd), after)
		if err := os.WriteFile(policyPage, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, string(old)); diff != "" {
		t.Errorf("docs/enforcement.md is not what pkg/policy enforces; run go generate ./pkg/policy (-want +got):\n%s", diff)
	}
}

// The uses and isolations of the table. The operator configures another runtime's handler (vm).
var (
	documentedUses       = []Use{UsePython, UseCommand, UseTests, UseSession, UseShell}
	documentedIsolations = []Isolation{Cell, Task, GVisor}
)

// cellOfTable is one combination, and what comes of it.
type cellOfTable struct {
	use       Use
	isolation Isolation
	text      string
}

func enforcementTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| field | program | isolation | mechanism | level |\n|---|---|---|---|---|\n")
	seen := map[string]int{}
	for i := range capabilities {
		c := &capabilities[i]
		name := "`" + c.name + "`"
		if labels := ways[c.name]; labels != nil {
			name += ": " + labels[seen[c.name]]
		}
		seen[c.name]++
		if c.free {
			continue // it asks for nothing
		}
		for _, group := range grouped(cellsOf(c)) {
			fmt.Fprintf(&b, "| %s | %s | %s\n", name, programsOf(group), isolationsOf(group)+" | "+group[0].text)
		}
	}
	for name, labels := range ways {
		if seen[name] != len(labels) {
			t.Errorf("%s: %d ways to ask for it are named, and there are %d", name, len(labels), seen[name])
		}
	}
	for name, n := range seen {
		if n > 1 && ways[name] == nil {
			t.Errorf("%s: its %d ways are to be named here", name, n)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// cellsOf asks the code that makes the report.
func cellsOf(c *capability) (out []cellOfTable) {
	p := Default()
	for _, u := range documentedUses {
		for _, isolation := range documentedIsolations {
			row := c.enforce(&p, Host{Isolations: Isolations, Cores: 1}, isolation, u)
			text := fmt.Sprintf("%s | %s |", row.Mechanism, row.Level)
			if row.Level == job.LevelNone {
				text = fmt.Sprintf("**refused**: %s | none |", strings.TrimPrefix(row.Mechanism, "not enforced: "))
			}
			out = append(out, cellOfTable{u, isolation, text})
		}
	}
	return out
}

// grouped joins equal rows: first all isolations of a program, then the programs that are equal in all
// isolations.
func grouped(cells []cellOfTable) (out [][]cellOfTable) {
	signature := func(u Use, text string) string {
		s := text
		for _, c := range cells {
			if c.use == u && c.text == text {
				s += "|" + string(c.isolation)
			}
		}
		return s
	}
	index := map[string]int{}
	for _, c := range cells {
		key := signature(c.use, c.text)
		at, ok := index[key]
		if !ok {
			at = len(out)
			index[key] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], c)
	}
	return out
}

func programsOf(group []cellOfTable) string {
	var names []string
	for _, c := range group {
		if !slices.Contains(names, string(c.use)) {
			names = append(names, string(c.use))
		}
	}
	return all(names, len(documentedUses))
}

func isolationsOf(group []cellOfTable) string {
	var names []string
	for _, c := range group {
		if !slices.Contains(names, string(c.isolation)) {
			names = append(names, string(c.isolation))
		}
	}
	return all(names, len(documentedIsolations))
}

func all(names []string, n int) string {
	if len(names) == n {
		return "all"
	}
	return strings.Join(names, ", ")
}
