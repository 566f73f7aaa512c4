package worker

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

func TestUnknownFinishIsSaidAgain(t *testing.T) {
	for _, executed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			var lost atomic.Int64
			fault := func(_ context.Context, kind string) error {
				if kind == "finish" && lost.Add(1) <= 4 {
					return job.ErrUnavailable
				}
				return nil
			}
			if executed {
				f.after = fault
			} else {
				f.before = fault
			}
			b := start(t, f)
			id := b.submit(t, script("artifact=/workspace/x:y"))
			b.until("it is confirmed", func() bool { return lost.Load() == 5 && b.row(id).delivered.acked() == 1 })
			if r := b.row(id); r.recorded != 1 || r.result.Outcome != job.Succeeded {
				t.Errorf("executed %v: %+v", executed, r)
			}
			if n := len(b.objectsLeft()); n != 1 {
				t.Errorf("%d artifacts, want the record's one", n)
			}
		})
	}
}

func TestAckOnlyAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var beats atomic.Int32
		f.before = func(_ context.Context, kind string) error {
			if kind == "finish" || kind == "heartbeat" && beats.Add(1) > 1 { // before the first heartbeat it takes no jobs
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("artifact=/workspace/x:y"))
		b.until("it ran", func() bool { return b.rt.Started() == 1 })
		b.until("it is given up when the lease is over", func() bool { return len(b.w.leases.all()) == 0 })
		if m := b.row(id).delivered; m.acked()+m.naked() != 0 {
			t.Errorf("acks %d, naks %d before any commit", m.acked(), m.naked())
		}
		if n := len(b.objectsLeft()); n != 1 {
			t.Errorf("%d artifacts: whether they belong to the record is unknown, they must stay", n)
		}
	})
}

func TestLateResultIsDiscarded(t *testing.T) {
	for _, status := range []store.FinishStatus{store.Fenced, store.Retried} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			f.status = status
			b := start(t, f)
			id := b.submit(t, script("artifact=/workspace/x:y"))
			b.until("acknowledged", func() bool { return b.row(id).delivered.acked() == 1 })
			b.until("artifacts are gone", func() bool { return len(b.objectsLeft()) == 0 })
		})
	}
}

// A result that the record refuses delays no other result.
func TestRefusedResultIsHandedBackAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		bad := f.submit(t, script("output=bad"))
		b := start(t, f, func(_ *Config, p *Parts) { p.Control = &poison{fleet: f, id: bad} })
		var good []job.ID
		for range 20 {
			good = append(good, b.submit(t, script("output=good")))
		}
		for _, id := range good {
			if res := b.recorded(id); res.Stdout.Text != "good" {
				t.Errorf("result = %+v", res)
			}
		}
		if rel := b.released(bad); rel.Reason != job.ReasonInfra {
			t.Errorf("released with %+v", rel)
		}
	})
}

// poison refuses every finish message that holds one job's result.
type poison struct {
	*fleet
	id job.ID
}

func (p *poison) Finish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	for _, f := range r.Finishes {
		if f.Job == p.id {
			return control.FinishReply{}, job.Invalid("result", "refused")
		}
	}
	return p.fleet.Finish(ctx, r)
}

// downStore fails the first n uploads.
type downStore struct {
	transfer.Objects
	fails atomic.Int64
}

func (d *downStore) Put(ctx context.Context, key string, r io.Reader) (object.Info, error) {
	if d.fails.Add(-1) >= 0 {
		return object.Info{}, job.ErrUnavailable
	}
	return d.Objects.Put(ctx, key, r)
}

func TestObjectStoreOutage(t *testing.T) {
	for name, c := range map[string]struct {
		fails int64
		ok    bool
	}{"short": {2, true}, "long": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet(), func(_ *Config, p *Parts) {
					d := &downStore{Objects: p.Objects}
					d.fails.Store(c.fails)
					p.Objects = d
				})
				id := b.submit(t, script("artifact=/workspace/x:y"))
				if !c.ok {
					if rel := b.released(id); rel.Reason != job.ReasonInfra || b.row(id).finishes != 0 {
						t.Errorf("a result without its artifacts: %+v", rel)
					}
				} else if res := b.recorded(id); len(res.Artifacts) != 1 {
					t.Errorf("artifacts = %+v", res.Artifacts)
				}
			})
		})
	}
}
