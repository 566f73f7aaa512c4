package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// maxTail is the most bytes of each stream in one answer.
const maxTail = 64 << 10

// written gives access to the output of an attempt's program while it runs.
type written struct {
	tenant string
	lease  job.Lease
	blind  bool // no access

	mu    sync.Mutex
	tails []runtime.Tail // of each step that has begun
}

func (wr *written) add(t runtime.Tail) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	wr.tails = append(wr.tails, t)
}

// of returns the reader of a step, and whether a later step has begun.
func (wr *written) of(step int) (t runtime.Tail, over bool) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if step < 0 || step >= len(wr.tails) {
		return nil, false
	}
	return wr.tails[step], step < len(wr.tails)-1
}

// tailed makes the output of the attempt's program readable until forget is called. The output of a
// graded solution is not readable: it runs as many programs, whose outputs are joined at the end.
func (a *attempt) tailed(in *runtime.Attempt) (forget func()) {
	wr := &written{tenant: a.claimed.Tenant, lease: a.lease.Lease, blind: in.Program.Tests != nil}
	if !wr.blind {
		in.Written = wr.add
	}
	a.written.Store(a.lease.Job, wr)
	return func() { a.written.CompareAndDelete(a.lease.Job, wr) }
}

// tail returns the recent output of a job's program.
func (w *Worker) tail(c control.SessionCall) (control.SessionReply, error) {
	v, _ := w.written.Load(c.Session)
	wr, _ := v.(*written)
	if wr == nil || wr.tenant != c.Tenant {
		return control.SessionReply{}, fmt.Errorf("%w: job %s does not run on worker %s", job.ErrNotFound, c.Session, w.cfg.ID)
	}
	r := control.TailRequest{}
	if c.Tail != nil {
		r = *c.Tail
	}
	if r.Lease != wr.lease {
		r = control.TailRequest{Most: r.Most}
	}
	out := &control.Tail{Lease: wr.lease, Blind: wr.blind, Step: r.Step}
	t, over := wr.of(r.Step)
	if t == nil {
		return control.SessionReply{Tail: out}, nil
	}
	most := min(max(r.Most, 1), maxTail)
	at, stdout := t(1, r.Stdout, most)
	out.Stdout = control.Written{At: at, Bytes: len(stdout)}
	at, stderr := t(2, r.Stderr, most)
	out.Stderr = control.Written{At: at, Bytes: len(stderr)}
	out.Begun, out.Over = true, over
	return control.SessionReply{Tail: out, Data: append(stdout, stderr...)}, nil
}

// tailServer is a control.SessionServer that also answers requests for the output of jobs.
type tailServer struct {
	control.SessionServer
	worker *Worker
}

// ServeSessions implements control.SessionServer.
func (s tailServer) ServeSessions(ctx context.Context, worker string, h func(context.Context, control.SessionCall) (control.SessionReply, error)) error {
	return s.SessionServer.ServeSessions(ctx, worker, func(ctx context.Context, c control.SessionCall) (control.SessionReply, error) {
		if c.Op == control.SessionTail {
			return s.worker.tail(c)
		}
		return h(ctx, c)
	})
}
