package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBench writes a bin/bench that counts for 8 s, twenty times a second. It prints the count and
// a constant figure.
func fakeBench(t *testing.T, figure int) (tree string) {
	t.Helper()
	tree = t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`#!/bin/sh
end=$(($(date +%%s) + 8)); n=0
while [ $(date +%%s) -lt $end ]; do sleep 0.05; n=$((n + 1)); done
echo '{"count":'$n',"cpu":{"all":%d},"cores":2}'
`, figure)
	if err := os.WriteFile(filepath.Join(tree, "bin", "bench"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return tree
}

// Two builds alternate, and the ratio of each figure is reported. Of the 8 s, both run in the first
// 4 and share the rest. So both together reach at most 12 s of 20 steps each.
func TestBeside(t *testing.T) {
	lead, base := fakeBench(t, 3), fakeBench(t, 2)
	c := &Comparison{Scenario: "python", Rounds: 1, Trees: [2]string{lead, base}, Logf: t.Logf}
	reports, err := c.round(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	first, second := figures(reports[0]), figures(reports[1])
	if steps := first["count"] + second["count"]; steps > 12*20+20 {
		t.Errorf("%v and %v steps: they ran at the same time", first, second)
	}
	r := ratios{}
	r.add(first, second)
	if got := r["cpu.all"]; len(got) != 1 || got[0] != 1.5 || len(r["count"]) != 1 || len(r) != 2 {
		t.Errorf("ratios: %v", r)
	}
}

func TestBesideErrors(t *testing.T) {
	broken := t.TempDir()
	if err := os.Mkdir(filepath.Join(broken, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "bin", "bench"), []byte("#!/bin/sh\necho no fleet >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tree, want string }{{t.TempDir(), "make setup build image"}, {broken, "no fleet"}} {
		b := &Comparison{Scenario: "python", Rounds: 1, Trees: [2]string{c.tree, c.tree}, Logf: t.Logf}
		if _, err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
