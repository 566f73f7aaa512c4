//go:build load

package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

var loadLoops = flag.Int("loops", 42, "endless loops in one batch beside the load")

// TestLoopsBesideLoad grades endless loops among right solutions beside 20 busy processes. No attempt is handed back for want
// of a core. The batch takes at most 3 times as long as the loops alone beside the same processes.
func TestLoopsBesideLoad(t *testing.T) {
	f := start(t, "ASSAY_CPU=8")
	busy(t, *loadBusy)
	grade := func(loops, right int) time.Duration {
		var specs []job.Spec
		add := func(name string, p job.Program) {
			s := spec(t, p, "cell", limits{"wall": "2s", "cpu": 1}, "")
			s.Name = name
			specs = append(specs, s)
		}
		for i := range max(loops, right) {
			p := []job.Program{stdioSolution(), functionSolution()}[i%2]
			if i < right {
				add(fmt.Sprint("right-", i), p)
			}
			if i < loops {
				loop := *p.Tests
				loop.Code = "def f(x):\n    while True: pass\nf(1)"
				add(fmt.Sprint("loop-", i), job.Program{Tests: &loop})
			}
		}
		began, wrong := time.Now(), 0
		for name, r := range f.results(t, client.BatchOptions{}, specs...) {
			fine := r.Outcome == job.Succeeded
			if name[0] == 'l' {
				fine = r.Outcome == job.Failed || r.Outcome == job.TimedOut
			}
			if !fine {
				if wrong++; wrong <= 5 {
					t.Errorf("%s: %s (%s), used %+v", name, r.Outcome, r.Message, r.Usage)
				}
			}
		}
		took := time.Since(began).Round(time.Millisecond)
		t.Logf("%d loops and %d right solutions took %s", loops, right, took)
		return took
	}
	alone := grade(*loadLoops, 0)
	if among := grade(*loadLoops, *loadCopies); among > 3*alone {
		t.Errorf("the loops took %s alone, and %s among right solutions", alone, among)
	}
	log, err := os.ReadFile(f.log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), runtime.ErrStarved.Error()+": in "); n > 0 {
		t.Errorf("%d attempts were handed back for want of a core", n)
	}
}
