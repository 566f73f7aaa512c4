package grade

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// slow is a runtime whose sandboxes take long to create. Its programs keep their limits as in a real runtime: their
// clock stands still during waits.
type slow struct {
	making, makes time.Duration // delays of the first program's sandbox, and of an interactor's
	programs      atomic.Int64
	begins        chan string // receives the name of each program that begins
}

func (*slow) Close() {}

func (*slow) Start(context.Context, runtime.Attempt) (runtime.Process, error) { panic("a service") }

// ran returns the report of a scripted program.
func ran(o job.Outcome, code int, wall time.Duration) *runtime.Report {
	return &runtime.Report{Result: job.Result{Outcome: o, State: o.State(), ExitCode: &code, Usage: job.Usage{WallMS: job.Milliseconds(wall)}}}
}

func (s *slow) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	defer a.Stdin.Close()
	defer a.Stdout.Close()
	if a.Program.Command.Argv[0] == "interactor" {
		return s.interactor(a)
	}
	if s.programs.Add(1) == 1 {
		select {
		case <-time.After(s.making):
		case <-ctx.Done():
			return ran(job.OutcomeCanceled, 0, 0), nil
		}
	}
	s.begins <- "program"
	a.Begun()
	time.Sleep(took)
	_, err := io.WriteString(a.Stdout, "x")
	return ran(job.Succeeded, 0, took), err
}

// took is the duration of a scripted program.
const took = 200 * time.Millisecond

// interactor accepts a program that writes within the interactor's limit.
func (s *slow) interactor(a runtime.Attempt) (*runtime.Report, error) {
	time.Sleep(s.makes)
	s.begins <- "interactor"
	a.Begun()
	began, before, heard := time.Now(), a.Waits.Total(), make(chan struct{})
	go func() {
		if n, _ := io.Copy(io.Discard, a.Stdin); n > 0 {
			close(heard)
		}
	}()
	for time.Since(began)-(a.Waits.Total()-before) < a.Plan.Policy.Wall.D() {
		select {
		case <-heard:
			return ran(job.Failed, kattisAccepted, time.Since(began)), nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	return ran(job.TimedOut, -1, time.Since(began)), nil
}

// TestSandboxesThatTakeLong checks that the limits of a program and its interactor do not depend on the creation of
// their sandboxes. That time does not count in the grading's, and is not subtracted twice.
func TestSandboxesThatTakeLong(t *testing.T) {
	t.Parallel()
	s := &slow{making: 3 * time.Second, makes: 100 * time.Millisecond, begins: make(chan string, 10)}
	p := policy.Default()
	p.Wall = job.Duration(10 * time.Second)
	rep, err := Run(t.Context(), Config{
		Tests: &job.Tests{Code: "x", Interactor: &job.Checker{Argv: []string{"interactor"}, Wall: job.Duration(500 * time.Millisecond)},
			Stdio: []job.Stdio{{Argv: []string{"x"}, Wall: job.Duration(time.Second)}, {Argv: []string{"x"}}}},
		Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}},
		Acquire: func(context.Context, string, string) (runtime.Slot, error) { return s, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range rep.Tests.Cases {
		if c.Outcome != job.Succeeded {
			t.Fatalf("case %d: %+v", i, c)
		}
		if a, b := <-s.begins, <-s.begins; a != "interactor" || b != "program" {
			t.Errorf("case %d: %s began, then %s", i, a, b)
		}
	}
	if left, most := rep.Tests.Cases[1].Limits.Wall.D(), p.Wall.D()-took; left > most || left < most-2*time.Second {
		t.Errorf("the second case has %s, want %s", left, most)
	}
}

// tardy is a runtime in which only the sandbox of a solution takes long to create.
type tardy struct {
	local
	making time.Duration
}

func (s tardy) Start(ctx context.Context, a runtime.Attempt) (runtime.Process, error) {
	wall, plan := a.Plan.Policy.Wall.D(), *a.Plan
	plan.Policy.Wall = job.Duration(time.Minute) // tardy enforces the limit
	a.Plan = &plan
	if a.Service == string(solutionSide) {
		time.Sleep(s.making)
	}
	p, err := s.local.Start(ctx, a)
	if err != nil {
		return nil, err
	}
	w := &watched{Process: p, done: make(chan struct{})}
	go w.watch(a.Waits, wall)
	return w, nil
}

// watched is a program whose clock stands still during waits.
type watched struct {
	runtime.Process
	done chan struct{}
	late atomic.Bool
}

func (w *watched) watch(waits *runtime.Waits, wall time.Duration) {
	for began, before := time.Now(), waits.Total(); time.Since(began)-(waits.Total()-before) < wall; {
		select {
		case <-w.done:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	w.late.Store(true)
	w.Stop()
}

func (w *watched) Wait() (*runtime.Report, error) {
	rep, err := w.Process.Wait()
	close(w.done)
	if err == nil && w.late.Load() {
		rep.Outcome = job.TimedOut
	}
	return rep, err
}

// TestChecksThatWait checks that a check's time does not run while the solution's sandbox is created, first or again.
func TestChecksThatWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check, code string
		want        job.Outcome
	}{
		"right":        {"def check(candidate):\n    assert candidate(1) == 2", "def f(x): return 2", job.Succeeded},
		"again":        {"def test_a():\n    f(0)\ndef test_b():\n    assert f(1) == 2", "import os\ndef f(x): return 2 if x else os._exit(0)", job.Failed},
		"broken check": {"def check(candidate\n    pass", "def f(x): return 2", job.CheckError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy.Default()
			p.Wall = job.Duration(3 * time.Second)
			rep, err := Run(t.Context(), Config{
				Tests: &job.Tests{Code: c.code, Function: "f", Check: c.check}, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}},
				Acquire: func(context.Context, string, string) (runtime.Slot, error) {
					return tardy{making: 5 * time.Second}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			last := rep.Tests.Cases[len(rep.Tests.Cases)-1]
			if rep.Outcome != c.want || last.Passed != (c.want != job.CheckError) {
				t.Errorf("%s %+v", rep.Outcome, rep.Tests)
			}
		})
	}
}
