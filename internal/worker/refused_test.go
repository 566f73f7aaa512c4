package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// refusing is a fleet in which another worker has this one's name.
type refusing struct {
	*fleet
	since time.Time // end of the refusal
}

func (r *refusing) Heartbeat(ctx context.Context, q control.HeartbeatRequest) (control.HeartbeatReply, error) {
	reply, err := r.fleet.Heartbeat(ctx, q)
	if time.Now().Before(r.since) {
		reply.Refused, reply.Rest = "another worker is named so", job.Duration(15*time.Second)
	}
	return reply, err
}

// A refused worker takes no jobs, and takes them as soon as the refusal ends.
func TestRefusedWorkerTakesNoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		until := time.Now().Add(time.Minute)
		b := start(t, f, func(_ *Config, p *Parts) { p.Control = &refusing{f, until} })
		b.until("it hears that it is refused", func() bool { return b.w.refusedWhy() != "" })
		if err := b.w.Ready(); err == nil {
			t.Error("it counts as ready")
		}
		early := b.submit(t, script("exit=0")) // a fetch may be under way: it is returned
		time.Sleep(time.Until(until) - time.Second)
		if n := b.row(early).claims; n > 0 {
			t.Error("it claimed a job while it was refused")
		}
		time.Sleep(time.Minute)
		id := b.submit(t, script("exit=0"))
		b.until("the job is done", func() bool { return b.row(id).done })
		if err := b.w.Ready(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
