package containerd

import (
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

func (p *pool) readySlots() (ready []*slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelf {
		ready = append(ready, s.ready...)
	}
	return ready
}

// Demand fills the pool; the next job finds a slot waiting and gets its own
// limits in it.
func TestPoolFillsByDemand(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 3 })
	if n := len(r.pool.readySlots()); n != 0 {
		t.Errorf("%d slots before any demand", n)
	}
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return len(r.pool.readySlots()) == 1 })
	warm := r.pool.readySlots()[0]
	s, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s != runtime.Slot(warm) {
		t.Error("Acquire made a slot although one was ready")
	}
	a := attemptOf(t, r, "head -c 3000000 /dev/zero >/tmp/x")
	tight := *a.Plan
	tight.Policy.Disk = job.MiB
	a.Plan = &tight
	if rep, err := s.Run(t.Context(), a); err != nil || rep.Outcome != job.DiskLimit {
		t.Errorf("in a warm slot: %+v, %v, want disk_limit", rep, err)
	}
}

func TestPoolIsBounded(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 2 })
	for range 6 {
		s, err := r.Acquire(t.Context(), taskKey)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		r.pool.mu.Lock()
		count := r.pool.count
		r.pool.mu.Unlock()
		if count > 2 {
			t.Fatalf("%d slots, want at most 2", count)
		}
	}
	eventually(t, "only the warm slots are left", func() bool { return len(r.pool.readySlots()) == 2 })
}

func TestPoolExpires(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm, c.WarmIdle = 2, time.Minute })
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return len(r.pool.readySlots()) > 0 })
	r.pool.expire(time.Now().Add(30 * time.Second))
	if len(r.pool.readySlots()) == 0 {
		t.Error("a slot was closed although there was demand just now")
	}
	r.pool.expire(time.Now().Add(2 * time.Minute))
	eventually(t, "it is closed for want of demand", func() bool { return len(r.pool.readySlots()) == 0 })
	eventually(t, "nothing is left", func() bool { return len(leftovers(t, r)) == 0 })
}

// A slot that died while it waited is not handed out.
func TestPoolDropsTheDead(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 1 })
	runOne(t, r, "true")
	eventually(t, "a slot is ready", func() bool { return len(r.pool.readySlots()) == 1 })
	dead := r.pool.readySlots()[0]
	if err := dead.container.kill(); err != nil {
		t.Fatal(err)
	}
	<-dead.link.gone
	if rep := runOne(t, r, "echo alive"); rep.Stdout.Text != "alive\n" {
		t.Errorf("ran %+v", rep)
	}
	if slices.Contains(r.pool.readySlots(), dead) {
		t.Error("the dead slot is still in the pool")
	}
}
