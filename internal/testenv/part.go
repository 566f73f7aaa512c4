package testenv

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Part selects a part of a corpus that is too long for every change: one item in N, different ones
// for each commit. Its flags are NAME.every, where 1 selects all items, and NAME.turn, which
// repeats a failed selection.
type Part struct {
	name        string
	every, turn *int
}

// NewPart defines the flags. Call it before flags are parsed, for example in a package variable.
func NewPart(name string, every int) *Part {
	return &Part{name,
		flag.Int(name+".every", every, "run one in this many; 1: all of them"),
		flag.Int(name+".turn", -1, "which ones; -1: as the commit's hash says"),
	}
}

// Of returns the selected items of corpus in order, and logs the flags that select them again.
func Of[T any](t testing.TB, p *Part, corpus []T) (taken []T) {
	t.Helper()
	every := max(1, *p.every)
	if every == 1 {
		return corpus
	}
	turn := *p.turn
	if turn < 0 {
		turn = commit(t)
	}
	turn %= every
	for i := turn; i < len(corpus); i += every {
		taken = append(taken, corpus[i])
	}
	t.Logf("%d of %d, which -args -%s.every=%d -%s.turn=%d takes again", len(taken), len(corpus), p.name, every, p.name, turn)
	return taken
}

// commit returns a number derived from the newest commit of the repository, or 0 outside git.
func commit(t testing.TB) int {
	t.Helper()
	hash, err := exec.CommandContext(t.Context(), "git", "-C", RepoRoot(t), "rev-parse", "HEAD").Output()
	if err != nil {
		t.Logf("no commit says which turn it is: %v", err)
		return 0
	}
	n, err := strconv.ParseUint(fmt.Sprintf("%.6s", strings.TrimSpace(string(hash))), 16, 31)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// TakesAll checks that a target of the Makefile runs every partially selected corpus of this
// package completely.
func TakesAll(t *testing.T, target string) {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(RepoRoot(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(makefile), "\n"+target+":")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	parts := 0
	flag.VisitAll(func(f *flag.Flag) {
		if !strings.HasSuffix(f.Name, ".every") {
			return
		}
		if parts++; !strings.Contains(recipe+"\n", " -"+f.Name+"=1") {
			t.Errorf("make %s leaves out -%s=1, and so runs a part of it", target, f.Name)
		}
	})
	if parts == 0 {
		t.Errorf("this package has no parts")
	}
}
