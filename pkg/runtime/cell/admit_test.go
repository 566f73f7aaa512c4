package cell

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Short of memory, the kernel may choose process 1 of a box: that is the program's
// failure, and not ours.
func TestKernelChoosesProcess1(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 0 })
	got, err := r.Acquire(t.Context(), cellKeys["command"])
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	s := got.(*slot)
	chosen := fmt.Sprintf("/proc/%d/oom_score_adj", s.sup.PID)
	go func() { // not before it has started the program, which would be chosen, too
		for t.Context().Err() == nil {
			if pids, err := s.lease.Pids(); err != nil || len(pids) > 1 {
				_ = os.WriteFile(chosen, []byte("1000"), 0)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	const code = `
import time
while open("/proc/1/oom_score_adj").read() != "1000\n": time.sleep(0.01)
x = b"x" * (200 << 20)`
	rep, err := s.Run(t.Context(), runtime.Attempt{
		Job: job.NewID(), Lease: 1, Program: job.Program{Command: &job.Command{Argv: []string{"python3", "-c", code}}},
		Plan: cellPlan(func(p *policy.Policy) { p.Memory, p.Wall = 64*job.MiB, job.Duration(30*time.Second) }),
	})
	if err != nil || rep.Outcome != job.OutOfMemory {
		t.Errorf("%+v, %v, want out_of_memory", rep, err)
	}
}

// TestLosingAZygoteIsABrokenSandbox checks that a job without its interpreter reports a broken sandbox. In a
// cell of its own, a neighbour's end does not affect it.
func TestLosingAZygoteIsABrokenSandbox(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 0 })
	begin := func(alone string) (*slot, chan error) {
		key := cellKeys["python"]
		key.SandboxGroup = alone
		got, err := r.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(got.Close)
		done := make(chan error, 1)
		go func() {
			rep, err := got.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: pySnippet("import time; time.sleep(1)"), Plan: cellPlan(nil)})
			if err == nil && rep.Outcome != job.Succeeded {
				err = fmt.Errorf("%s: %s", rep.Outcome, rep.Message)
			}
			done <- err
		}()
		return got.(*slot), done
	}
	one, first := begin("")
	alone, second := begin("x")
	if one.cell == alone.cell {
		t.Error("they share a cell")
	}
	one.job.zygote.conn.Close()
	if err := <-first; !errors.Is(err, runtime.ErrBroken) {
		t.Errorf("with its interpreter gone: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("by itself: %v", err)
	}
}
