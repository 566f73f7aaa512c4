package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// mostOfOne is the most memory that the largest result of one job may add to a worker, in MB.
// Several jobs together may add most.
const mostOfOne = 110

// loud writes n MiB to both streams, of a byte that takes six in JSON.
const loud = `head -c %dM /dev/zero | tr '\0' '\1' | tee /dev/stderr`

// largest has a program for each field that the worker holds in memory, at its largest.
var largest = map[string]struct {
	program func() job.Program
	policy  limits
	level   string
	times   int // at once
	outcome job.Outcome
}{
	"steps":                {func() job.Program { return steps(32, fmt.Sprintf(loud, 16)) }, loudPolicy, "cell", 1, job.Succeeded},
	"steps task":           {func() job.Program { return steps(16, fmt.Sprintf(loud, 16)) }, loudPolicy, "task", 1, job.Succeeded},
	"steps of many jobs":   {func() job.Program { return steps(4, fmt.Sprintf(loud, 16)) }, loudPolicy, "cell", 8, job.Succeeded},
	"streams of many jobs": {func() job.Program { return shell(fmt.Sprintf(loud, 16)) }, loudPolicy, "cell", 12, job.Succeeded},
	"steps just inline":    {func() job.Program { return steps(32, `head -c 262000 /dev/zero | tr '\0' x | tee /dev/stderr`) }, loudPolicy, "cell", 3, job.Succeeded},
	"streams of snippets": {func() job.Program {
		return python("import sys\nfor s in sys.stdout, sys.stderr:\n    for i in range(16): s.write('\\1' * (1 << 20))")
	}, loudPolicy, "cell", 8, job.Succeeded},
	"variables and figures": {func() job.Program {
		return python("for i in range(1000): globals()[f'v{i}'] = 'x' * 100000\n'y' * 3000000")
	}, limits{"memory": "512Mi"}, "cell", 8, job.Succeeded},
	"exceptions": {func() job.Program { return python("raise ValueError('\\1' * (16 << 20))") }, limits{"memory": "256Mi"}, "cell", 8, job.Exception},
	"cases":      {func() job.Program { return manyCases(2000) }, limits{"memory": "256Mi", "wall": "20s"}, "cell", 2, job.Failed},
	"streams of a solution": {func() job.Program {
		p := manyCases(16)
		p.Tests.Code = "import sys\ndef f(x):\n    for s in sys.stdout, sys.stderr:\n        for i in range(16): s.write('\\1' * (1 << 20))"
		return p
	}, loudPolicy, "cell", 4, job.Failed},
	"outputs of stdio cases": {func() job.Program {
		t := &job.Tests{Code: "import sys\nfor s in sys.stdout, sys.stderr:\n    for i in range(16): s.write('\\1' * (1 << 20))"}
		for range 8 {
			t.Stdio = append(t.Stdio, job.Stdio{Stdin: "x", Stdout: "y"})
		}
		return job.Program{Tests: t}
	}, loudPolicy, "cell", 2, job.Failed},
}

var loudPolicy = limits{"memory": "128Mi", "wall": "120s", "cpu_time": "120s", "stdout": limits{"limit": "16Mi"}, "stderr": limits{"limit": "16Mi"}}

func steps(n int, script string) job.Program {
	c := &job.Command{}
	for i := range n {
		c.Steps = append(c.Steps, job.Step{Name: fmt.Sprintf("step-%d", i), Argv: []string{"bash", "-c", script}})
	}
	return job.Program{Command: c}
}

// manyCases returns cases that fail with the largest values.
func manyCases(n int) job.Program {
	t := &job.Tests{Code: "def f(x): return 'x' * 200000", Function: "f"}
	long, _ := json.Marshal(strings.Repeat("y", 3000))
	for range n {
		t.Cases = append(t.Cases, job.Case{Args: []json.RawMessage{[]byte("1")}, Expected: long})
	}
	return job.Program{Tests: t}
}

// TestWorkerMemoryOfResults ends jobs with the largest possible results. The memory of the worker
// grows at most by these limits. Before, the streams of 32 steps took 2 GiB.
func TestWorkerMemoryOfResults(t *testing.T) {
	f := start(t, "ASSAY_CPU=64", "ASSAY_MEMORY=64Gi")
	for _, level := range []string{"cell", "task"} { // warm-up
		if r, err := f.api.Run(t.Context(), spec(t, steps(2, "echo"), level, nil, "")); err != nil || r.Outcome != job.Succeeded {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	f.run(t, python("1"), job.Succeeded)
	f.run(t, graded("def f(x): return x * 2\nif __name__ == '__main__': print(f(int(input())))"), job.Succeeded)
	worker := f.worker(t)
	for name, c := range largest {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", worker), []byte("5"), 0); err != nil { // resets the peak
				t.Fatal(err)
			}
			idle := memory(t, worker, "VmRSS")
			var all sync.WaitGroup
			for range c.times {
				all.Go(func() {
					r, err := f.api.Run(t.Context(), spec(t, c.program(), c.level, c.policy, ""))
					if err != nil || r.Outcome != c.outcome {
						t.Errorf("%.300v, %v, want %s", r, err, c.outcome)
						return
					}
					if name == "steps" {
						checkSteps(t, r)
					}
				})
			}
			all.Wait()
			peak := memory(t, worker, "VmHWM")
			t.Logf("%d MB before, %d at its peak", idle, peak)
			limit := most
			if c.times == 1 {
				limit = mostOfOne
			}
			if peak-idle > limit {
				t.Errorf("it took %d MB of the worker's memory, want at most %d", peak-idle, limit)
			}
		})
	}
	if again := f.worker(t); again != worker {
		t.Errorf("the worker was started again: %d, then %d", worker, again)
	}
}

// checkSteps checks that the kept output of all steps is bounded in total, and that each step keeps
// some.
func checkSteps(t *testing.T, r *job.Result) {
	if len(r.Steps) != 32 {
		t.Fatalf("%d steps", len(r.Steps))
	}
	var sum int64
	for i, s := range r.Steps {
		kept := int64(len(s.Stdout.Text))
		if s.Stdout.Stored != nil {
			kept = s.Stdout.Stored.Bytes
		}
		if sum += kept; kept < 64<<10 || s.Stdout.Bytes != 16<<20 || !s.Stdout.Truncated {
			t.Errorf("step %d keeps %d bytes of %d, truncated: %t", i, kept, s.Stdout.Bytes, s.Stdout.Truncated)
		}
	}
	if most := int64(16<<20 + 32*100); sum > most {
		t.Errorf("the steps keep %d bytes of stdout, want at most %d", sum, most)
	}
}
