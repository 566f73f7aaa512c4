package containerd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// fewFiles is the hard limit of open files of a worker that may not raise it.
const fewFiles = 2048

// TestLimitOfOpenFilesOfAWorker checks that a worker in a container without CAP_SYS_RESOURCE, which cannot
// exceed its own limits, refuses jobs above them by the field's name. Accepted jobs get their full request.
// That worker is this test again, in a process without the capability.
func TestLimitOfOpenFilesOfAWorker(t *testing.T) {
	testenv.Needs(t, "root")
	const again = "ASSAY_TEST_FEW_FILES"
	if os.Getenv(again) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "prlimit", fmt.Sprintf("--nofile=%d:%d", fewFiles, fewFiles),
			"setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource",
			self, "-test.run=^TestLimitOfOpenFilesOfAWorker$", "-test.v", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), again+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLimitOfOpenFilesOfAWorker/gvisor") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	r := newRuntime(t, func(c *Config) { c.Runsc, c.Warm = testenv.Runsc(t), 1 })
	for _, isolation := range []policy.Isolation{policy.Cell, policy.Task, policy.GVisor} {
		t.Run(string(isolation), func(t *testing.T) {
			p := policy.Default()
			p.Isolation, p.OpenFiles = isolation, fewFiles+1
			var refusal *policy.Refusal
			if _, err := p.Plan(r.Host()); !errors.As(err, &refusal) || refusal.Fields[0].Field != "policy.open_files" {
				t.Errorf("%d open files: %v, want a refusal of policy.open_files", p.OpenFiles, err)
			}
			most := runtimetest.Plan(t, r.Host(), isolation, func(p *policy.Policy) { p.OpenFiles = fewFiles })
			const code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
			for kind, program := range map[string]job.Program{
				"python": pySnippet(code), "command": {Command: &job.Command{Argv: []string{"python3", "-c", code}}},
			} {
				s, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: testenv.Image, Isolation: isolation, Kind: kind})
				if err != nil {
					t.Fatal(err)
				}
				limitIs(t, s, program, most)
			}
			if isolation == policy.Task { // an interpreter that waited has begun without a policy
				limitIs(t, warmPython(t, r), pySnippet(code), most)
			}
		})
	}
}

func limitIs(t *testing.T, s runtime.Slot, program job.Program, p *policy.Plan) {
	t.Helper()
	defer s.Close()
	rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: program, Plan: p})
	if err != nil {
		t.Error(err)
		return
	}
	if want := fmt.Sprintf("(%d, %d)\n", fewFiles, fewFiles); rep.Outcome != job.Succeeded || rep.Stdout.Text != want {
		t.Errorf("%s %s %q %s, want %q", rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text, want)
	}
}
