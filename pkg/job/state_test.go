package job

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write docs/states.md instead of comparing it")

//go:generate go test -run TestStatesPage -update

const statesPage = "../../docs/states.md"

func TestStatesPage(t *testing.T) {
	want := renderStates()
	if *update {
		if err := os.WriteFile(statesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(statesPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/states.md is not what pkg/job.Moves says; run go generate ./pkg/job (-want +got):\n%s", diff)
	}
}

// renderStates draws the lifecycle from the table.
func renderStates() string {
	var b strings.Builder
	b.WriteString("# The lifecycle of a job\n\n")
	b.WriteString("Generated from the tables `InitialStates` and `Moves` in pkg/job (`go generate ./pkg/job`). Any other move is a bug: the\n")
	b.WriteString("guard of each statement in the store names the state that it moves from, and the schema's `CHECK`s\n")
	b.WriteString("refuse a state that is not here.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, m := range InitialStates {
		fmt.Fprintf(&b, "    [*] --> %s: %s\n", m.To, strings.ReplaceAll(m.Why, ":", ","))
	}
	for _, m := range Moves {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", m.From, m.To, strings.ReplaceAll(m.Why, ":", ","))
	}
	for _, s := range States {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\n| from | to | when |\n|---|---|---|\n")
	for _, m := range slices.Concat(InitialStates, Moves) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.From, m.To, m.Why)
	}
	b.WriteString("\nThe *outcome* of the program determines the terminal state:\n\n| outcome | state |\n|---|---|\n")
	for _, o := range Outcomes {
		fmt.Fprintf(&b, "| %s | %s |\n", o, o.State())
	}
	return b.String()
}

func TestMovesAreWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[[2]State]bool{}
	for _, m := range Moves {
		pair := [2]State{m.From, m.To}
		switch {
		case !m.From.Valid() || !m.To.Valid():
			t.Errorf("%v names a state that does not exist", m)
		case m.From == m.To:
			t.Errorf("%v goes nowhere", m)
		case m.From.Terminal():
			t.Errorf("%v leaves a terminal state", m)
		case m.Why == "":
			t.Errorf("%v has no reason", m)
		case seen[pair]:
			t.Errorf("%v is there twice", m)
		}
		seen[pair] = true
	}
}

func TestCanMoveIsTheTable(t *testing.T) {
	t.Parallel()
	for _, from := range append(States, "", "paused") {
		for _, to := range append(States, "", "paused") {
			want := slices.ContainsFunc(Moves, func(m Move) bool { return m.From == from && m.To == to })
			if got := CanMove(from, to); got != want {
				t.Errorf("CanMove(%q, %q) = %v", from, to, got)
			}
			if CanMove(from, to) && (from.Terminal() || !to.Valid()) {
				t.Errorf("%q → %q is allowed", from, to)
			}
		}
	}
}

// Every state can be reached from queued, and from every state an end can be.
func TestEveryStateIsReachedAndEnds(t *testing.T) {
	t.Parallel()
	for _, s := range States {
		if !reaches(Queued, func(to State) bool { return to == s }) {
			t.Errorf("%s cannot be reached", s)
		}
		for _, end := range []State{Finished, Canceled} {
			if !s.Terminal() && !reaches(s, func(to State) bool { return to == end }) {
				t.Errorf("%s cannot end as %s", s, end)
			}
		}
	}
}

func reaches(from State, goal func(State) bool) bool {
	seen, todo := map[State]bool{from: true}, []State{from}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		if goal(s) {
			return true
		}
		for _, m := range Moves {
			if m.From == s && !seen[m.To] {
				seen[m.To] = true
				todo = append(todo, m.To)
			}
		}
	}
	return false
}

// TestLifeOfAJob checks that a job that obeys CanMove never leaves the states, runs only after it waited, and
// keeps its first end.
func TestLifeOfAJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, before, ended := Queued, State(""), State("")
		for range rapid.IntRange(1, 50).Draw(t, "moves") {
			to := rapid.SampledFrom(States).Draw(t, "to")
			if !CanMove(state, to) {
				continue
			}
			before, state = state, to
			if ended != "" {
				t.Fatalf("moved to %s after it had ended as %s", to, ended)
			}
			if state == Running && before != Queued && before != Dispatched {
				t.Fatalf("running without having waited, from %s", before)
			}
			if state.Terminal() {
				ended = state
			}
		}
	})
}

func TestOutcomesBelongToTerminalStates(t *testing.T) {
	t.Parallel()
	for _, o := range Outcomes {
		if !o.Valid() || !o.State().Terminal() {
			t.Errorf("%s: valid %v, state %s", o, o.Valid(), o.State())
		}
	}
	said := map[Outcome]bool{OutcomeCanceled: true, Expired: true, Lost: true, CheckError: true, SetupError: true, "": true, "of_tomorrow": true}
	for _, o := range append([]Outcome{"", "of_tomorrow"}, Outcomes...) {
		if o.OfProgram() == said[o] {
			t.Errorf("%q is the program's: %v", o, o.OfProgram())
		}
	}
	if !CompileError.OfProgram() {
		t.Error("that a program does not compile is its own doing")
	}
	if Outcome("").Valid() || State("").Valid() {
		t.Error("the empty outcome or state is valid")
	}
}
