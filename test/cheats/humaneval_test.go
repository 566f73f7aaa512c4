package cheats

import (
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/examples/humaneval"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Real problems, without the setup that three of their checks need. These three have no verdict on
// any solution. All others have their usual verdict on the reference and on the wrong solution.
func TestHumanEvalWithoutSetup(t *testing.T) {
	broken := []string{"HumanEval/32", "HumanEval/38", "HumanEval/50"}
	f := newFleet(t, policy.Cell)
	for _, p := range humaneval.Problems() {
		for _, v := range humaneval.Variants {
			t.Run(p.ID+"/"+string(v), func(t *testing.T) {
				t.Parallel()
				tests := *p.Program(v).Tests
				tests.Setup = ""
				want := map[humaneval.Variant]job.Outcome{humaneval.Reference: job.Succeeded, humaneval.Wrong: job.Failed}[v]
				if slices.Contains(broken, p.ID) {
					want = job.CheckError
				}
				rep := f.grade(t, &tests, func(p *policy.Policy) { p.Wall = job.Duration(time.Minute) })
				if rep.Outcome != want || (rep.Tests.Score == nil) != (want == job.CheckError) {
					t.Errorf("%s, want %s: %q", rep.Outcome, want, rep.Feedback)
				}
			})
		}
	}
}
