package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// waiting explains why queued and dispatched jobs wait, from cached data. It queries the database at most once a second,
// for any number of jobs.
type waiting struct {
	server *Server
	pauses *recent.Value[map[[2]string]store.Pause] // by kind and name
	caps   *recent.Value[map[string]int]            // max_running by tenant
}

func newWaiting(s *Server) *waiting {
	return &waiting{
		server: s,
		pauses: &recent.Value[map[[2]string]store.Pause]{Age: time.Second, Thrift: 20, Within: 15 * time.Second, Read: s.readPauses},
		caps:   &recent.Value[map[string]int]{Age: 5 * time.Second, Thrift: 20, Within: 15 * time.Second, Read: s.readCaps},
	}
}

func (s *Server) readPauses(ctx context.Context) (map[[2]string]store.Pause, error) {
	all, err := s.Admin.Pauses(ctx)
	by := map[[2]string]store.Pause{}
	for _, p := range all.Pauses {
		by[[2]string{p.Kind, p.Name}] = p
	}
	return by, err
}

func (s *Server) readCaps(ctx context.Context) (map[string]int, error) {
	all, err := s.Store.Tenants(ctx)
	by := map[string]int{}
	for _, t := range all {
		if t.MaxRunning > 0 {
			by[t.Name] = t.MaxRunning
		}
	}
	return by, err
}

// queuedJob is a queued or dispatched job. It has the properties that an explanation depends on.
type queuedJob struct {
	tenant     string
	batch      job.ID
	class      string
	dispatched bool
}

// of returns why a job waits, and a sentence about it. It skips reasons whose data cannot be read. A
// dispatched job whose turn it is does not wait: it is about to start.
func (w *waiting) of(ctx context.Context, j queuedJob) (job.Wait, string) {
	if pauses, known, _ := w.pauses.Get(ctx); known {
		if p, paused := pauses[[2]string{store.PauseBatch, string(j.batch)}]; paused && j.batch != "" {
			return job.WaitsPaused, pausedBy("its batch", p)
		}
		if p, paused := pauses[[2]string{store.PauseTenant, j.tenant}]; paused {
			return job.WaitsPaused, pausedBy("its tenant", p)
		}
	}
	wait, why := w.server.Workers.Waits(j.class)
	switch wait {
	case job.WaitsTurn, job.WaitsSlot, job.WaitsCores: // a quota takes precedence
		if most, running := w.quota(ctx, j.tenant); most > 0 && running >= int64(most) {
			return job.WaitsQuota, fmt.Sprintf("waits for quota: max_running of tenant %s is %d, and %d of its jobs are dispatched or run", j.tenant, most, running)
		}
	}
	if wait == job.WaitsTurn && j.dispatched {
		return "", ""
	}
	return wait, why
}

func pausedBy(what string, p store.Pause) string {
	text := fmt.Sprintf("waits until %s is resumed: paused by %s", what, p.By)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// quota returns how many jobs a tenant may run at once (0: any number), and how many are dispatched or running.
func (w *waiting) quota(ctx context.Context, tenant string) (most int, running int64) {
	caps, known, _ := w.caps.Get(ctx)
	if !known || caps[tenant] == 0 {
		return 0, 0
	}
	now, known, _ := w.server.glance.Get(ctx)
	if !known {
		return 0, 0
	}
	for _, g := range now.Queue {
		if g.Tenant == tenant {
			running += g.Running + g.Dispatched
		}
	}
	return caps[tenant], running
}

// explain adds to groups of the queue why their jobs wait.
func (w *waiting) explain(ctx context.Context, groups []store.QueueGroup) []store.QueueGroup {
	out := make([]store.QueueGroup, len(groups))
	copy(out, groups)
	for i := range out {
		if g := &out[i]; g.Queued+g.Dispatched > 0 {
			g.WaitsFor, g.Message = w.of(ctx, queuedJob{tenant: g.Tenant, class: g.Pool, dispatched: g.Queued == 0})
		}
	}
	return out
}
