package worker

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/worker/awake"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// A worker accepts assigned jobs besides those that it claims, up to its capacity.
func TestAssigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), func(c *Config, _ *Parts) { c.Slots = 2 })
		b.until("it has sent a heartbeat", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.beats) > 0 })
		long, err := b.assign(t, script("sleep=20s"))
		if err != nil {
			t.Fatal(err)
		}
		asked := b.submit(t, script("sleep=10s"))
		b.until("both run", func() bool { return b.rt.Started() == 2 })
		var same control.Assignment
		for range 2 { // the second time as if the answer was lost
			_, err := b.assign(t, script("exit=0"), func(a *control.Assignment) {
				if same.TTL == 0 {
					same = *a
				}
				*a = same
			})
			if !errors.Is(err, job.ErrRefused) {
				t.Errorf("one more than there is room for: %v", err)
			}
		}
		if res := b.recorded(asked); res.Outcome != job.Succeeded {
			t.Errorf("what was asked for: %+v", res)
		}
		b.until("what was not asked for is recorded", func() bool { return b.row(long).done })
		if r := b.row(long); r.result.Outcome != job.Succeeded || r.recorded != 1 || r.claims != 0 {
			t.Errorf("what was not asked for: %+v", r)
		}
	})
}

// A job that is assigned twice because the answer was lost runs once, even if it has ended by then.
func TestAssignedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		b.until("it has sent a heartbeat", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.beats) > 0 })
		var same control.Assignment
		id, err := b.assign(t, script("exit=0"), func(a *control.Assignment) { same = *a })
		if err != nil {
			t.Fatal(err)
		}
		b.until("it is recorded", func() bool { return b.row(id).done })
		if _, err := b.assign(t, script("exit=0"), func(a *control.Assignment) { *a = same }); !errors.Is(err, job.ErrConflict) {
			t.Errorf("again: %v", err)
		}
		if n := b.rt.Started(); n != 1 {
			t.Errorf("it ran %d times", n)
		}
		time.Sleep(2 * ttl)
		n := 0
		b.w.taken.Range(func(any, any) bool { n++; return true })
		if n > 0 {
			t.Errorf("%d leases that are over are remembered", n)
		}
	})
}

// The lease of an assignment counts from the heartbeat that it names. A late assignment is refused.
// The job of an accepted one is killed in time if no dispatcher renews the lease.
func TestAssignedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		b.until("it has sent a heartbeat", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.beats) > 0 })
		for what, edit := range map[string]func(*control.Assignment){
			"late":                     func(a *control.Assignment) { a.Beat -= int64(ttl) },
			"for who was there before": func(a *control.Assignment) { a.StartedAt = a.StartedAt.Add(-time.Second) },
		} {
			if _, err := b.assign(t, script("exit=0"), edit); !errors.Is(err, job.ErrRefused) {
				t.Errorf("%s: %v", what, err)
			}
		}
		gone := errors.New("gone")
		b.mu.Lock()
		b.before = func(context.Context, string) error { return gone }
		b.mu.Unlock()
		began := time.Now()
		if _, err := b.assign(t, script("sleep=1h")); err != nil {
			t.Fatal(err)
		}
		b.until("it is fenced", func() bool { return len(b.w.leases.all()) == 0 })
		if took := time.Since(began); took > ttl {
			t.Errorf("it was killed after %v, its lease was over after at most %v", took, ttl)
		}
		b.mu.Lock()
		b.before = nil
		b.mu.Unlock()
	})
}

func TestAssignedWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		b.until("it has sent a heartbeat", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.beats) > 0 })
		b.submit(t, script("sleep=10s"))
		b.until("it runs", func() bool { return b.rt.Started() == 1 })
		b.stop()
		b.until("it drains", func() bool { return b.w.draining.Load() })
		if _, err := b.assign(t, script("exit=0")); !errors.Is(err, job.ErrRefused) {
			t.Errorf("taken: %v", err)
		}
	})
}

// A client waits for an assigned job: processors stay awake at its start and at its end, and may
// sleep while it runs for long.
func TestAssignedKeepsProcessorsAwake(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	if err := unix.Mkfifo(device, 0o600); err != nil {
		t.Fatal(err)
	}
	kernel, err := unix.Open(device, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(kernel)
	heard := func() int { // number of writes to the device
		n, err := unix.Read(kernel, make([]byte, 1<<10))
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		return max(n, 0) / 4
	}
	synctest.Test(t, func(t *testing.T) {
		keeper, err := awake.Open(device, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b := start(t, newFleet(), func(_ *Config, p *Parts) { p.Awake = keeper })
		b.until("it has sent a heartbeat", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.beats) > 0 })
		b.recorded(b.submit(t, script("sleep=10s")))
		if n := heard(); n != 1 {
			t.Errorf("by what was asked for, told %d times, want once, when it was opened", n)
		}
		id, err := b.assign(t, script("sleep=10s"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := heard(); n != 2 {
			t.Errorf("while it runs, told %d times, want twice: awake, and asleep again", n)
		}
		b.until("it is recorded", func() bool { return b.row(id).done })
		time.Sleep(5 * time.Second)
		if n := heard(); n != 2 {
			t.Errorf("as it ended, told %d times, want twice", n)
		}
	})
}
