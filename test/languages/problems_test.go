package languages

import (
	"slices"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// The set is complete: in at least five languages, six problems each, with a right solution and
// wrong ones, of all shapes and all wrong outcomes.
func TestProblemsAreWhole(t *testing.T) {
	t.Parallel()
	all, err := readProblems()
	if err != nil {
		t.Fatal(err)
	}
	perLanguage, shapes, wrong := map[string]int{}, map[string]int{}, map[job.Outcome]int{}
	for _, p := range all {
		name := p.language
		if name == "gotest" {
			name = "go"
		}
		perLanguage[name]++
		shapes[p.shape]++
		right := 0
		for _, s := range p.solutions {
			for _, o := range s.want {
				if wrong[o]++; !o.Valid() {
					t.Errorf("%s: %s is no outcome", p.name, o)
				}
			}
			if slices.Contains(s.want, job.Succeeded) {
				right++
			}
		}
		if right != 1 || len(p.solutions) < 2 {
			t.Errorf("%s has %d solutions, of which %d are right", p.name, len(p.solutions), right)
		}
		if (p.shape == stdio) != (len(p.cases) > 0) || (p.shape == stdio) == (p.test != "") {
			t.Errorf("%s is not of its shape", p.name)
		}
	}
	for name, n := range perLanguage {
		if n < 6 {
			t.Errorf("%s has %d problems", name, n)
		}
	}
	if len(all) < 30 || len(perLanguage) < 5 || len(shapes) != 3 {
		t.Errorf("%d problems in %v of %v", len(all), perLanguage, shapes)
	}
	for _, o := range []job.Outcome{job.Failed, job.Signaled, job.TimedOut, job.CompileError} {
		if wrong[o] == 0 {
			t.Errorf("no solution ends with %s", o)
		}
	}
}
