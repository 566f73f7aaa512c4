package hostile

import (
	"slices"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// load reads the corpus, in order.
func load(t *testing.T) []*Attack {
	t.Helper()
	corpus, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	return corpus
}

// TestCorpus checks the headers of the corpus.
func TestCorpus(t *testing.T) {
	t.Parallel()
	corpus := load(t)
	subjects := map[string]int{}
	languages := map[string]int{}
	names := map[string]bool{}
	for _, a := range corpus {
		subjects[a.Subject]++
		languages[a.Lang]++
		if names[a.String()] {
			t.Errorf("%s is there twice", a)
		}
		names[a.String()] = true
		for _, o := range slices.Concat(a.Outcomes, a.Foreign) {
			if !slices.Contains(job.Outcomes, o) {
				t.Errorf("%s: no outcome %q", a, o)
			}
			if o == job.Lost || o == job.OutcomeCanceled {
				t.Errorf("%s: %s is never a program's own outcome", a, o)
			}
		}
	}
	t.Logf("%d programs: %v, %v", len(corpus), languages, subjects)
	if len(corpus) < 320 {
		t.Errorf("%d programs, want 320 at least", len(corpus))
	}
}

// TestJudge makes the result of an attack wrong in each way.
func TestJudge(t *testing.T) {
	t.Parallel()
	a := &Attack{Outcomes: []job.Outcome{job.Succeeded}, Foreign: []job.Outcome{job.Failed}, Kept: []string{"/b", "/a"}}
	right := Seen{Outcome: job.Succeeded, Said: "contained\n", Kept: []string{"/a", "/b"}}
	for name, c := range map[string]struct {
		isolation policy.Isolation
		change    func(*Seen)
		wrong     int
	}{
		"all right":           {"cell", func(*Seen) {}, 0},
		"another outcome":     {"cell", func(s *Seen) { s.Outcome = job.Failed }, 1},
		"no fault of its own": {"gvisor", func(s *Seen) { s.Outcome = job.Lost }, 1},
		"another kernel":      {"gvisor", func(s *Seen) { *s = Seen{Outcome: job.Failed} }, 0},
		"it got out":          {"cell", func(s *Seen) { s.Said += "ESCAPED" }, 1},
		"it says nothing":     {"task", func(s *Seen) { s.Said = "" }, 1},
		"a file too many":     {"task", func(s *Seen) { s.Kept = append(s.Kept, "/c") }, 1},
	} {
		s := right
		c.change(&s)
		if got := a.Judge(c.isolation, s); len(got) != c.wrong {
			t.Errorf("%s: %q, want %d", name, got, c.wrong)
		}
	}
}
