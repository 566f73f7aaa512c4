package grade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// host runs cases whose input has their duration, their CPU time and their output.
type host struct {
	free       atomic.Int64 // rooms besides the job's own
	open, most atomic.Int64
	begun      atomic.Int64
	waits      func() time.Duration // how long a case waits for a core besides; nil: never
	late       time.Duration        // delay between a case's end and its report
}

type scripted struct{ h *host }

func (s scripted) Close() { s.h.open.Add(-1) }

func (scripted) Start(context.Context, runtime.Attempt) (runtime.Process, error) {
	return nil, errors.New("no python here")
}

func (s scripted) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	s.h.begun.Add(1)
	var takes, cpu time.Duration
	var says string
	if _, err := fmt.Sscanf(string(a.Script.Stdin), "%d %d %s", &takes, &cpu, &says); err != nil {
		return nil, err
	}
	wall := a.Plan.Policy.Wall.D()
	rep := &runtime.Report{StartedAt: time.Now(), Result: job.Result{Outcome: job.Succeeded, ExitCode: new(int)}}
	if takes > wall {
		takes, cpu, rep.Outcome = wall, time.Duration(float64(cpu)*float64(wall)/float64(takes)), job.TimedOut
	}
	if left := a.CPU.Left(); cpu >= left {
		takes, cpu, rep.Outcome = time.Duration(float64(takes)*float64(left)/float64(cpu)), left, job.TimedOut
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if says == "ours" {
		return nil, errors.New("ours")
	}
	a.CPU.Spend(cpu)
	rep.Usage.WallMS, rep.Usage.CPUMS = job.Milliseconds(takes), job.Milliseconds(cpu)
	if s.h.waits != nil {
		waited := s.h.waits()
		time.Sleep(waited)
		a.Waits.Pause(waited)
		rep.Usage.WallMS, rep.Usage.WaitedMS = job.Milliseconds(takes+waited), job.Milliseconds(waited)
	}
	time.Sleep(s.h.late)
	if rep.Outcome == job.Succeeded {
		rep.Stdout = job.Output{Text: says, Bytes: int64(len(says))}
		_, _ = a.Output.Write([]byte(says))
	}
	return rep, nil
}

// timed returns a case with this duration, CPU time and output.
func timed(takes, cpu time.Duration, says string) job.Stdio {
	return job.Stdio{Stdin: fmt.Sprintf("%d %d %s", takes, cpu, says), Stdout: "yes"}
}

// gradedBeside grades cases with some rooms besides the job's own, and returns the duration of the grading.
func gradedBeside(t *testing.T, rooms int, tests job.Tests, wall, cpu time.Duration) (rep *runtime.Report, h *host, took time.Duration, err error) {
	t.Helper()
	return gradedOn(t, &host{}, rooms, tests, wall, cpu)
}

// gradedOn is gradedBeside on a host.
func gradedOn(t *testing.T, h *host, rooms int, tests job.Tests, wall, cpu time.Duration) (rep *runtime.Report, _ *host, took time.Duration, err error) {
	t.Helper()
	h.free.Store(int64(rooms))
	p := policy.Default()
	p.Wall, p.CPUTime = job.Duration(wall), job.Duration(cpu)
	tests.Code = "solution"
	c := Config{
		Tests: &tests, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}},
		Acquire: func(context.Context, string, string) (runtime.Slot, error) {
			if n := h.open.Add(1); n > h.most.Load() {
				h.most.Store(n)
			}
			return scripted{h}, nil
		},
		Blob: func(context.Context, string) (*Blob, error) { // an answer that takes long to read
			open := func(context.Context) (io.ReadCloser, error) {
				time.Sleep(2 * time.Second)
				return io.NopCloser(strings.NewReader("yes")), nil
			}
			return &Blob{File: runtime.File{Open: open}, Bytes: 3, Close: func() {}}, nil
		},
		Beside: func() (func(), bool) {
			if h.free.Add(-1) < 0 {
				h.free.Add(1)
				return nil, false
			}
			return func() { h.free.Add(1) }, true
		},
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rep, err = Run(t.Context(), c)
		took = time.Since(began)
	})
	if h.open.Load() != 0 || h.free.Load() != int64(rooms) {
		t.Errorf("%d slots are open, %d of %d rooms are free", h.open.Load(), h.free.Load(), rooms)
	}
	return rep, h, took, err
}

// charged reports whether a time in milliseconds is the programs' time plus the worker's small overhead.
func charged(ms, programs float64) bool { return ms >= programs && ms < programs+80 }

func TestCasesRunSideBySide(t *testing.T) {
	t.Parallel()
	var cases []job.Stdio
	for i := range 8 {
		cases = append(cases, timed(time.Duration(8-i)*time.Second, time.Second, "yes"))
	}
	cases[5].Stdin = strings.Replace(cases[5].Stdin, "yes", "no", 1)
	for rooms, want := range map[int]time.Duration{0: 36 * time.Second, 1: 18 * time.Second, 3: 11 * time.Second} {
		rep, h, took, err := gradedBeside(t, rooms, job.Tests{Stdio: cases}, time.Hour, time.Hour)
		if err != nil || rep.Tests.Passed != 7 || rep.Tests.Cases[5].Passed || rep.Outcome != job.Failed || h.most.Load() != int64(rooms+1) || took > want {
			t.Errorf("%d rooms: %+v, %v; %d at once, in %s", rooms, rep, err, h.most.Load(), took)
		}
		for i, c := range rep.Tests.Cases {
			if c.Name != fmt.Sprintf("stdio %d", i+1) || c.WallMS != float64(8-i)*1000 {
				t.Errorf("%d rooms, %d: %+v", rooms, i, c)
			}
		}
		if rep.Usage.WallMS != 36000 || !charged(rep.Usage.CPUMS, 8000) || rep.Stdout.Text != "yesyesyesyesyesnoyesyes" {
			t.Errorf("%d rooms: %+v, %q", rooms, rep.Usage, rep.Stdout.Text)
		}
	}
}

// TestRoomChangesNoVerdict checks that the verdicts do not depend on the room. This includes jobs whose time or CPU
// time ends, and jobs whose last case is the first failure.
func TestRoomChangesNoVerdict(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		tests := job.Tests{StopOnFailure: seed%3 == 0}
		for range 1 + r.IntN(12) {
			s := timed(time.Duration(1+r.IntN(3000))*time.Millisecond, time.Duration(r.IntN(3000))*time.Millisecond, "yes")
			if r.IntN(8) == 0 {
				s.Stdout = "no"
			}
			if r.IntN(3) == 0 {
				s.Wall = job.Duration(time.Duration(1+r.IntN(4000)) * time.Millisecond)
			}
			tests.Stdio = append(tests.Stdio, s)
		}
		wall, cpu := time.Duration(1+r.IntN(20))*time.Second, time.Duration(1+r.IntN(20))*time.Second
		want, _, _, err := gradedBeside(t, 0, tests, wall, cpu)
		if err != nil {
			t.Fatal(err)
		}
		got, _, _, err := gradedBeside(t, 1+r.IntN(4), tests, wall, cpu)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := func(rep *runtime.Report) (out []job.CaseResult) {
			for _, c := range rep.Tests.Cases {
				out = append(out, job.CaseResult{Name: c.Name, Passed: c.Passed, Outcome: c.Outcome})
			}
			return out
		}
		if diff := cmp.Diff(verdicts(want), verdicts(got)); diff != "" || want.Outcome != got.Outcome {
			t.Fatalf("seed %d (-one after the other +side by side):\n%s", seed, diff)
		}
	}
}

// TestFailuresAheadOfTheCase checks that a failure of the worker counts only if the case's verdict is needed. The grading
// does not wait for other cases.
func TestFailuresAheadOfTheCase(t *testing.T) {
	t.Parallel()
	ours, slow := timed(time.Second, 0, "ours"), timed(time.Hour, 0, "yes")
	if _, _, took, err := gradedBeside(t, 3, job.Tests{Stdio: []job.Stdio{timed(2*time.Second, 0, "yes"), ours, slow}}, 24*time.Hour, time.Hour); err == nil || err.Error() != "ours" || took > 3*time.Second {
		t.Errorf("%v after %s", err, took)
	}
	rep, _, took, err := gradedBeside(t, 3, job.Tests{StopOnFailure: true, Stdio: []job.Stdio{timed(2*time.Second, 0, "no"), ours, slow}}, 24*time.Hour, time.Hour)
	if err != nil || rep.Outcome != job.Failed || rep.Tests.Total != 3 || rep.Tests.Cases[2].Outcome != job.OutcomeCanceled || took > 3*time.Second {
		t.Errorf("%+v, %v after %s", rep, err, took)
	}
}

// TestContentionTakesNoTime checks that waits for a core, and the worker's own work for cases, do not count in the
// job's time.
func TestContentionTakesNoTime(t *testing.T) {
	t.Parallel()
	var cases []job.Stdio
	for range 10 {
		s := timed(990*time.Millisecond, 990*time.Millisecond, "yes")
		s.Stdout, s.StdoutBlob = "", "answer"
		cases = append(cases, s)
	}
	for rooms := range 4 {
		r := rand.New(rand.NewPCG(uint64(rooms), 2))
		var mu sync.Mutex
		h := &host{late: 3 * time.Second, waits: func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(r.IntN(20)) * time.Second
		}}
		rep, _, _, err := gradedOn(t, h, rooms, job.Tests{Stdio: cases}, 10500*time.Millisecond, time.Minute)
		if err != nil || rep.Tests.Passed != 10 || !charged(rep.Usage.WallMS-rep.Usage.WaitedMS, 9900) {
			t.Errorf("%d rooms: %+v, %v", rooms, rep, err)
		}
		h = &host{late: h.late, waits: h.waits}
		rep, _, _, err = gradedOn(t, h, rooms, job.Tests{Stdio: cases}, 8500*time.Millisecond, time.Minute)
		if err != nil || rep.Tests.Passed != 8 || rep.Tests.Cases[8].Outcome != job.TimedOut { // the eighth may take a second of the 1.57 s that are left
			t.Errorf("%d rooms, and less time than it takes: %+v, %v", rooms, rep, err)
		}
	}
}
