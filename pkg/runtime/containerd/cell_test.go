package containerd

import (
	"fmt"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func cellPlan(edit func(*policy.Policy)) *policy.Plan {
	p := policy.Default()
	p.Isolation = policy.Cell
	if edit != nil {
		edit(&p)
	}
	return &policy.Plan{Policy: p, Enforcement: []job.Enforcement{{Capability: "x"}}}
}

func TestCellSmoke(t *testing.T) {
	r := newRuntime(t, nil)
	for _, prog := range []job.Program{
		{Command: &job.Command{Argv: []string{"sh", "-c", "id; pwd; ls -la / /dev; cat /proc/self/status; mount; echo err >&2; exit 3"}}},
		{Python: &job.Python{Code: "import os\nprint(os.getpid(), os.listdir('/proc')[:3], os.cpu_count())\n1+1"}},
	} {
		s, err := r.Acquire(t.Context(), runtime.Key{Tenant: "t", Image: testenv.Image, Isolation: policy.Cell, Kind: prog.Kind()})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: prog, Plan: cellPlan(nil)})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text, rep.Value, rep.Usage)
	}
}
