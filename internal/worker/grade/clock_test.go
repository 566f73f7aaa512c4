package grade

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func clocked(wall time.Duration) *grading {
	p := policy.Default()
	p.Wall = job.Duration(wall)
	return &grading{Config: Config{Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}}}, clock: newClock(&p, runtime.NewCPUBudget(time.Hour))}
}

// TestClockRunsWhileTheWorkerWaits checks that the clock runs only while the worker waits for a program's message.
func TestClockRunsWhileTheWorkerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := clocked(time.Minute)
		at := func(want time.Duration) {
			t.Helper()
			if now, looked := g.now(), g.look(); now != want || looked != want {
				t.Errorf("it is %v, and %v after a look, want %v", now, looked, want)
			}
		}
		g.halt()
		time.Sleep(time.Second)
		at(0)
		resume := g.pause() // a sandbox is created
		time.Sleep(time.Second)
		resume()
		at(0)
		g.proceed()
		time.Sleep(time.Second)
		at(time.Second)
		g.waits.Pause(300 * time.Millisecond) // a program waited for a core
		if g.past(800*time.Millisecond) || !g.past(600*time.Millisecond) {
			t.Errorf("it is %v", g.look())
		}
		g.halt()
		g.halt()
		time.Sleep(time.Second)
		at(700 * time.Millisecond)
		g.proceed()
		at(700 * time.Millisecond)
	})
}

// TestShares checks that a case without its own limit leaves time for the others, and has a minimum time.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			wall, passed, asked time.Duration
			last                bool
			want                time.Duration
		}{
			{wall: 10 * time.Second, want: 5 * time.Second},
			{wall: 10 * time.Second, passed: 9 * time.Second, want: time.Second},
			{wall: 10 * time.Second, passed: 8500 * time.Millisecond, want: time.Second},
			{wall: 400 * time.Millisecond, want: 200 * time.Millisecond},
			{wall: 400 * time.Millisecond, passed: 250 * time.Millisecond, want: 100 * time.Millisecond},
			{wall: 400 * time.Millisecond, passed: 350 * time.Millisecond, want: 50 * time.Millisecond},
			{wall: 10 * time.Second, last: true, want: 10 * time.Second},
			{wall: 10 * time.Second, asked: 3 * time.Second, want: 3 * time.Second},
			{wall: 10 * time.Second, passed: 8 * time.Second, asked: 3 * time.Second, want: 2 * time.Second},
		} {
			g := clocked(c.wall)
			time.Sleep(c.passed)
			if got := g.share(job.Duration(c.asked), c.last); got != c.want {
				t.Errorf("%+v: %v", c, got)
			}
		}
	})
}

// TestDoubtfulTimeOutsAreRunAgain checks that a case that timed out without CPU time on a busy host runs again. It is
// a verdict after CPU time, or after repeated time-outs.
func TestDoubtfulTimeOutsAreRunAgain(t *testing.T) {
	for name, c := range map[string]struct {
		wall    time.Duration // one second if zero
		stuck   int           // tries in which the solution gets no core, though no counter shows it
		cpu     time.Duration
		idle    bool
		network policy.NetworkMode
		runs    int64
		want    job.Outcome
	}{
		"in time":              {runs: 1, want: job.Succeeded},
		"without a core":       {stuck: 1, runs: 2, want: job.Succeeded},
		"without a core twice": {stuck: 2, runs: 3, want: job.Succeeded},
		"asleep":               {stuck: 9, runs: 3, want: job.Failed},
		"often without a core": {wall: 300 * time.Millisecond, stuck: 8, runs: 9, want: job.Succeeded},
		"asleep for less":      {wall: 300 * time.Millisecond, stuck: 99, runs: 10, want: job.Failed},
		"an endless loop":      {stuck: 9, cpu: time.Second, runs: 1, want: job.Failed},
		"on an idle host":      {stuck: 9, idle: true, runs: 1, want: job.Failed},
		"with a network":       {stuck: 9, network: policy.NetworkOpen, runs: 1, want: job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy.Default()
				p.Wall, p.Network.Mode = job.Duration(cmp.Or(c.wall, time.Second)), policy.NetworkNone
				if c.network != "" {
					p.Network.Mode = c.network
				}
				h, tries := &host{}, 0
				tests := &job.Tests{Stdio: []job.Stdio{timed(0, 0, "yes")}}
				rep, err := Run(t.Context(), Config{
					Tests: tests, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}},
					Busy: func() bool { return !c.idle },
					Acquire: func(context.Context, string, string) (runtime.Slot, error) {
						if tries++; tries <= c.stuck {
							return stuck{scripted{h}, c.cpu}, nil
						}
						return scripted{h}, nil
					},
				})
				if err != nil || rep.Outcome != c.want || h.begun.Load() != c.runs {
					t.Errorf("%v after %d runs, %v: %+v", rep.Outcome, h.begun.Load(), err, rep.Tests)
				}
			})
		})
	}
}

// TestDoubtOfTheRestOfAWall checks the doubt about a case that had little of the wall left, because earlier cases
// lost time.
func TestDoubtOfTheRestOfAWall(t *testing.T) {
	p := policy.Default()
	p.Wall, p.Network.Mode = job.Duration(300*time.Millisecond), policy.NetworkNone
	c := &Config{Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}}, Busy: func() bool { return true }}
	rep := &runtime.Report{}
	rep.Tests = &job.TestsResult{Cases: []job.CaseResult{
		{Passed: true, Outcome: job.Succeeded},
		{Outcome: job.TimedOut, Limits: &job.CaseLimits{Wall: job.Duration(17 * time.Millisecond)}},
	}}
	for cpu, want := range map[float64]bool{23: true, 149: true, 151: false} {
		rep.Usage.CPUMS = cpu
		if got := doubtful(c, rep, 300*time.Millisecond); got != want {
			t.Errorf("%v ms of CPU time in 300 ms: doubtful %v", cpu, got)
		}
	}
}

// stuck is a slot whose program takes an hour.
type stuck struct {
	scripted
	cpu time.Duration
}

func (s stuck) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	a.Script = &runtime.Script{Stdin: []byte(timed(time.Hour, time.Hour/time.Second*s.cpu, "yes").Stdin)}
	return s.scripted.Run(ctx, a)
}
