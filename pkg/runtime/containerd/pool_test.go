package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// warmTasks returns how many slots of isolation task are ready.
func warmTasks(t testing.TB, r *Runtime, kind string) int {
	t.Helper()
	img, err := r.images.Get(t.Context(), taskKey.Image)
	if err != nil {
		t.Fatal(err)
	}
	return r.pool.Ready(taskSlotKey{policy.Task, img.Digest, kind != "command"})
}

// acquireTask returns a slot as the runtime hands it out.
func acquireTask(t testing.TB, r *Runtime) *slot {
	t.Helper()
	s, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*slot)
}

// A job gets its own limits in a slot that was made before anybody knew them.
func TestWarmSlotsTakeTheJobsLimits(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 3 })
	if n := warmTasks(t, r, "command"); n != 0 {
		t.Errorf("%d slots before any demand", n)
	}
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return warmTasks(t, r, "command") == 1 })
	s := acquireTask(t, r)
	defer s.Close()
	a := attemptOf(t, r, "head -c 3000000 /dev/zero >/tmp/x")
	tight := *a.Plan
	tight.Policy.Disk = job.MiB
	a.Plan = &tight
	if rep, err := s.Run(t.Context(), a); err != nil || rep.Outcome != job.DiskLimit {
		t.Errorf("in a warm slot: %+v, %v, want disk_limit", rep, err)
	}
}

func TestWarmSlotsExpire(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm, c.WarmIdle = 2, 2*time.Second })
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return warmTasks(t, r, "command") > 0 })
	eventually(t, "it is closed for want of demand", func() bool { return warmTasks(t, r, "command") == 0 })
	eventually(t, "nothing is left", func() bool { return len(leftovers(t, r)) == 0 })
}

// A slot that died while it waited is not handed out.
func TestDeadSlotsAreNotHandedOut(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 1 })
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return warmTasks(t, r, "command") == 1 })
	r.mu.Lock()
	for s := range r.live {
		if !s.life.Closed() {
			if err := s.container.Kill(); err != nil {
				t.Error(err)
			}
			<-s.link.Gone
		}
	}
	r.mu.Unlock()
	if rep := runOne(t, r, "echo alive"); rep.Stdout.Text != "alive\n" {
		t.Errorf("ran %+v", rep)
	}
}

// TestNothingThatWaitedIsForAJobAlone checks that a job repeated alone after a broken sandbox gets a fresh
// container. The cause of the break may have damaged waiting containers, too, and the job is blamed for a
// second break.
func TestNothingThatWaitedIsForAJobAlone(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 1 })
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return warmTasks(t, r, "command") == 1 })
	alone := taskKey
	alone.SandboxGroup = "of-a-job"
	s, err := r.Acquire(t.Context(), alone)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := warmTasks(t, r, "command"); n != 1 {
		t.Errorf("%d slots wait, want the one that did", n)
	}
}

// A sandbox that hangs while it is made is given up, and the next one is tried.
func TestASandboxThatHangsIsMadeAgain(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 0 })
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \" $* \" in *' create '*) mkdir " + dir + "/hung && exec sleep 60 ;; esac\nexec " + runc + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "runc"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if r.levels[policy.Task].engine, err = r.engine.Of(r.engine.Handler(), filepath.Join(dir, "runc"), ""); err != nil {
		t.Fatal(err)
	}
	r.patience = 3 * time.Second
	begin := time.Now()
	acquireTask(t, r).Close()
	if _, err := os.Stat(filepath.Join(dir, "hung")); err != nil || time.Since(begin) < r.patience {
		t.Errorf("none hung: %v", err)
	}
}

// An attempt that no warm slot fits may be canceled while its own is made: that is its outcome, and no failure of ours. Any
// other end of its context is one.
func TestCanceledWhileItsSandboxIsMade(t *testing.T) {
	r := newRuntime(t, nil)
	for _, cause := range []error{runtime.ErrCanceled, context.DeadlineExceeded} {
		s := acquireTask(t, r)
		defer s.Close()
		a := attemptOf(t, r, "true")
		a.Plan = runtimetest.Plan(t, r.Host(), policy.Task, func(p *policy.Policy) { p.Read = []string{"/elsewhere"} })
		for range cap(r.parallel) { // nothing can be made
			r.parallel <- struct{}{}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer time.AfterFunc(200*time.Millisecond, func() { cancel(cause) }).Stop()
		rep, err := s.Run(ctx, a)
		for range cap(r.parallel) {
			<-r.parallel
		}
		canceled := err == nil && rep.Outcome == job.OutcomeCanceled && rep.State == job.Canceled
		if want := errors.Is(cause, runtime.ErrCanceled); canceled != want || !want && err == nil {
			t.Errorf("%v: %+v, %v", cause, rep, err)
		}
	}
}
