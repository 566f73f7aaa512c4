package worker

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// A check runs in a sandbox of its own, besides the solution's: the worker counts the memory of
// both. Both are python programs, so that warm interpreters serve.
func TestWhatAGradingNeeds(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Memory, p.CPU = 64*job.MiB, 2
	for name, c := range map[string]struct {
		program job.Program
		memory  job.Size
	}{
		"command": {job.Program{Command: &job.Command{}}, 64 * job.MiB},
		"python":  {job.Program{Python: &job.Python{}}, 64 * job.MiB},
		"cases":   {job.Program{Tests: &job.Tests{Cases: make([]job.Case, 3)}}, 64 * job.MiB},
		"check":   {job.Program{Tests: &job.Tests{Check: "assert f()"}}, 128 * job.MiB},
	} {
		a := &attempt{spec: job.Spec{Program: c.program}, plan: &policy.Plan{Policy: p}}
		if got := a.need(); got.Memory != int64(c.memory) || got.Milli != 2000 {
			t.Errorf("%s needs %+v, want %s and 2 cores", name, got, c.memory)
		}
	}
}
