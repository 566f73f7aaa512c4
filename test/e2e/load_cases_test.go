//go:build load

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

var (
	loadRounds = flag.Int("rounds", 5, "how often each batch of graded solutions runs beside the load")
	loadCopies = flag.Int("copies", 300, "right solutions in one batch beside the load")
	loadBusy   = flag.Int("busy", 20, "busy processes outside the fleet")
)

// busy runs n busy processes outside the fleet, until the test ends.
func busy(t *testing.T, n int) (stop func()) {
	t.Helper()
	var all []*exec.Cmd
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
		all = nil
	}
	t.Cleanup(stop)
	return stop
}

func stdioSolution() job.Program {
	p := &job.Tests{Code: "x, y = map(int, input().split())\nprint(3 * x + 4 * y)"}
	for i := range 4 {
		p.Stdio = append(p.Stdio, job.Stdio{Stdin: fmt.Sprintf("%d %d\n", i, i), Stdout: fmt.Sprintf("%d\n", 7*i)})
	}
	return job.Program{Tests: p}
}

func functionSolution() job.Program {
	p := &job.Tests{Code: "def f(x):\n    return x + 1", Function: "f"}
	for i := range 4 {
		p.Cases = append(p.Cases, job.Case{Args: []json.RawMessage{fmt.Append(nil, i)}, Expected: fmt.Append(nil, i+1)})
	}
	return job.Program{Tests: p}
}

// TestGradedCasesBesideLoad grades right solutions beside 20 busy processes. A case must never time out for want of a core.
func TestGradedCasesBesideLoad(t *testing.T) {
	f := start(t, "ASSAY_CPU=8")
	busy(t, *loadBusy)
	for name, program := range map[string]job.Program{"stdio": stdioSolution(), "function": functionSolution()} {
		for _, wall := range []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, time.Second} {
			for round := range *loadRounds {
				var specs []job.Spec
				for i := range *loadCopies {
					s := spec(t, program, "cell", limits{"wall": wall.String(), "cpu": 1}, "")
					s.Name = fmt.Sprint(i)
					specs = append(specs, s)
				}
				began, wrong := time.Now(), 0
				for _, r := range f.results(t, client.BatchOptions{}, specs...) {
					if r.Outcome != job.Succeeded {
						if wrong++; wrong <= 5 {
							raw, _ := json.Marshal(r.Tests)
							t.Errorf("%s, wall %s: %s (%s): %+v, %s", name, wall, r.Outcome, r.Message, r.Usage, raw)
						}
					}
				}
				t.Logf("%s, wall %s, round %d: %d of %d wrong in %s", name, wall, round+1, wrong, *loadCopies, time.Since(began).Round(time.Millisecond))
			}
		}
	}
}
