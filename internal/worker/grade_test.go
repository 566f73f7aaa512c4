package worker

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// A check runs in a sandbox of its own, beside the solution's: the worker counts
// the memory of both. Either is a python program, so that warm interpreters serve.
func TestWhatAGradingNeeds(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Memory, p.CPU = 64*job.MiB, 2
	for name, c := range map[string]struct {
		program job.Program
		kind    string
		memory  job.Size
	}{
		"command": {job.Program{Command: &job.Command{}}, "command", 64 * job.MiB},
		"python":  {job.Program{Python: &job.Python{}}, "python", 64 * job.MiB},
		"cases":   {job.Program{Tests: &job.Tests{Cases: make([]job.Case, 3)}}, "python", 64 * job.MiB},
		"check":   {job.Program{Tests: &job.Tests{Check: "assert f()"}}, "python", 128 * job.MiB},
	} {
		a := &attempt{spec: job.Spec{Program: c.program}, plan: &policy.Plan{Policy: p}}
		if got := a.need(); got.mem != int64(c.memory) || got.milli != 2000 {
			t.Errorf("%s needs %+v, want %s and 2 cores", name, got, c.memory)
		}
		if got := a.slotKind(); got != c.kind {
			t.Errorf("%s runs in a slot for %s, want %s", name, got, c.kind)
		}
	}
}
