package worker

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// cordoning is a fleet whose operator keeps the worker from taking jobs.
type cordoning struct {
	*fleet
	on atomic.Bool
}

func (c *cordoning) Heartbeat(ctx context.Context, q control.HeartbeatRequest) (control.HeartbeatReply, error) {
	reply, err := c.fleet.Heartbeat(ctx, q)
	if c.on.Load() {
		reply.Cordoned, reply.Rest = true, job.Duration(15*time.Second)
	}
	return reply, err
}

func (c *cordoning) Claim(ctx context.Context, q control.ClaimRequest) (control.ClaimReply, error) {
	if c.on.Load() {
		return control.ClaimReply{Cordoned: true, Rest: job.Duration(15 * time.Second)}, nil
	}
	return c.fleet.Claim(ctx, q)
}

// A cordoned worker takes no jobs, but ends its running ones. It takes any number of jobs again at
// the first heartbeat that ends the cordon, as no job had failed.
func TestCordonedWorkerTakesNoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &cordoning{fleet: newFleet()}
		b := start(t, f.fleet, func(_ *Config, p *Parts) { p.Control = f })
		running := b.submit(t, script("sleep=1m"))
		b.until("a job runs", func() bool { return b.row(running).claims > 0 })
		f.on.Store(true)
		b.until("it hears of the cordon", func() bool { return !b.w.breaker.Closed() })
		waiting := b.submit(t, script("exit=0"))
		b.until("what ran ends", func() bool { return b.row(running).done })
		time.Sleep(time.Minute)
		if n := b.row(waiting).claims; n > 0 {
			t.Error("it claimed a job while it was cordoned")
		}
		m := b.row(waiting).delivered
		f.on.Store(false)
		b.until("it hears of the end", func() bool { return b.w.breaker.Closed() })
		if n := b.w.breaker.Most(); n != math.MaxInt {
			t.Errorf("it is on probation: %d jobs at once", n)
		}
		if m.naked() > 0 { // a fetch was under way: the queue redelivers
			f.ready <- m
		}
		b.until("the job is done", func() bool { return b.row(waiting).done })
	})
}
