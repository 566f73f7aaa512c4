package cell

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// TestNewsOfTheEndIsLate checks a busy machine, where the reporter of a program's end may get no core until
// the program's limit has passed: the program kept its limit. A program beyond its limit is ended meanwhile.
func TestNewsOfTheEndIsLate(t *testing.T) {
	r := newRuntime(t, nil)
	for name, c := range map[string]struct {
		code string
		want job.Outcome
	}{
		"in time":   {"import sys, time; time.sleep(0.2); sys.exit(4)", job.Failed},
		"too late":  {"import sys, time; time.sleep(30); sys.exit(4)", job.TimedOut},
		"a thread":  {"import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(30,)).start()\nctypes.CDLL(None).pthread_exit(None)", job.TimedOut},
		"a process": {"import os, time\nif os.fork():\n    time.sleep(0.2); os._exit(4)\ntime.sleep(30)", job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := acquireCell(t, r)
			defer s.Close()
			zygote := childOf(t, s.cell.container.Proc.PID, "python3")
			time.AfterFunc(100*time.Millisecond, func() { _ = unix.Kill(zygote, unix.SIGSTOP) })
			going := time.AfterFunc(1500*time.Millisecond, func() { _ = unix.Kill(zygote, unix.SIGCONT) })
			defer func() {
				going.Stop()
				_ = unix.Kill(zygote, unix.SIGCONT)
			}()
			rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Program: pySnippet(c.code), Plan: cellPlan(func(p *policy.Policy) { p.Wall = job.Duration(500 * time.Millisecond) })})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Outcome != c.want || c.want == job.Failed && (rep.ExitCode == nil || *rep.ExitCode != 4) {
				t.Errorf("%s: %s, %+v", rep.Outcome, rep.Message, rep.Usage)
			}
			if own := rep.Usage.WallMS - rep.Usage.WaitedMS; c.want == job.Failed && own > 500.001 { // of floats
				t.Errorf("it had %.0f ms: %+v", own, rep.Usage)
			}
		})
	}
}
