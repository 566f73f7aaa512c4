package cheats

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// A solution in the process of its check can forge a pass, so no such result may look trusted.
func TestSharedProcessIsMarked(t *testing.T) {
	f := newFleet(t, policy.Cell)
	tests, _ := problem(t, "forged_verdict", "import builtins, sys\nclass Any:\n    def __eq__(self, other): return True\n    def __getattr__(self, name): return lambda *a, **k: Any()\ndef solve(*a): return Any()\n")
	tests.Cases, tests.Stdio, tests.Process = nil, nil, job.Shared
	if rep := f.grade(t, tests, limits); rep.Tests == nil || !rep.Tests.Forgeable {
		t.Errorf("%+v is not marked", rep.Tests)
	}
	tests.Process = job.Separate
	if rep := f.grade(t, tests, limits); rep.Tests == nil || rep.Tests.Forgeable || rep.Outcome == job.Succeeded {
		t.Errorf("%+v", rep.Tests)
	}
}
