package runtimetest

import (
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// The overload in Contention, and the limit of each program.
const (
	contended     = 6 // programs per core
	contendedCPU  = 400 * time.Millisecond
	contendedWall = time.Second
)

// Contention checks that time limits are independent of other programs.
func Contention(t *testing.T, cfg Config) {
	s := newSuite(t, cfg)
	t.Run("own time", s.ownTime)
	t.Run("shared time", s.sharedTime)
}

// ownTime checks time limits when each program has a sixth of a core. Programs within their limit
// must succeed, and others must time out within half a second of their own time.
func (s *suite) ownTime(t *testing.T) {
	var all errgroup.Group
	start := make(chan struct{})
	try := func(code string, want job.Outcome, check func(u job.Usage, own time.Duration) error) {
		slot := s.acquire(t, "python")
		a := s.attempt(t, job.Program{Python: &job.Python{Code: code}}, func(p *policy.Policy) {
			p.Wall, p.CPU = job.Duration(contendedWall), 1
		})
		all.Go(func() error {
			<-start
			rep, err := slot.Run(t.Context(), a)
			if err != nil {
				return err
			}
			own := time.Duration((rep.Usage.WallMS - rep.Usage.WaitedMS) * float64(time.Millisecond))
			if rep.Outcome != want {
				return fmt.Errorf("%q: %s (%s) after %+v, want %s", code, rep.Outcome, rep.Message, rep.Usage, want)
			}
			return check(rep.Usage, own)
		})
	}
	overslept := oversleeps(t)
	late := func(u job.Usage, own time.Duration) error {
		if most := contendedWall + 500*time.Millisecond + overslept(); own < contendedWall || own > most {
			return fmt.Errorf("under a limit of %s it was ended after %s of its own (%s at most): %+v", contendedWall, own, most, u)
		}
		return nil
	}
	try("while True: pass", job.TimedOut, late)
	try("import time; time.sleep(60)", job.TimedOut, late)
	waited := make(chan float64, contended*goruntime.NumCPU())
	for range cap(waited) {
		try(fmt.Sprintf("import time\nwhile time.process_time() < %g: pass", contendedCPU.Seconds()), job.Succeeded, func(u job.Usage, _ time.Duration) error {
			waited <- u.WaitedMS
			return nil
		})
	}
	close(start) // creating a sandbox takes time
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	close(waited)
	sum := 0.0
	for ms := range waited {
		sum += ms
	}
	if least := job.Milliseconds(contendedCPU) * float64(cap(waited)); sum < least { // each waits at least for one more
		t.Errorf("%d programs say that they waited for %.0f ms, and it was more than %.0f", cap(waited), sum, least)
	}
}

// oversleeps measures how late this process itself wakes, because it competes for cores, too. The
// returned function returns the maximum.
func oversleeps(t *testing.T) func() time.Duration {
	const nap = 20 * time.Millisecond
	var worst atomic.Int64
	go func() {
		for t.Context().Err() == nil {
			began := time.Now()
			time.Sleep(nap)
			worst.Store(max(worst.Load(), int64(time.Since(began)-nap)))
		}
	}()
	return func() time.Duration { return time.Duration(worst.Load()) }
}

// sharedTime checks programs that share their time: a program's clock stops while the other waits,
// and its time is never less than its CPU time. Waits are counted twice when both wait, but no
// clock may stop for ever.
func (s *suite) sharedTime(t *testing.T) {
	try := func(p job.Program, waits time.Duration) *runtime.Report {
		a := s.attempt(t, p, func(p *policy.Policy) { p.Wall = job.Duration(contendedWall) })
		a.Waits = new(runtime.Waits)
		slot := s.acquire(t, "python")
		time.AfterFunc(contendedWall/2, func() { a.Waits.Pause(waits) })
		rep, err := slot.Run(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	if rep := try(sleeping(contendedWall+contendedWall/2), contendedWall); rep.Outcome != job.Succeeded {
		t.Errorf("beside one that waited for %s: %s (%s)", contendedWall, rep.Outcome, rep.Message)
	}
	rep := try(job.Program{Python: &job.Python{Code: "while True: pass"}}, time.Hour)
	if most := job.Milliseconds(contendedWall + 500*time.Millisecond); rep.Outcome != job.TimedOut || rep.Usage.CPUMS > most {
		t.Errorf("beside one that waited for an hour: %s (%s) after %+v", rep.Outcome, rep.Message, rep.Usage)
	}
}
