package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/store"
)

// The causes that end an attempt before its program has ended. The cause of a cancel is
// runtime.ErrCanceled.
var (
	errLost    = errors.New("the lease was lost")                          // reported by a dispatcher
	errFenced  = errors.New("no dispatcher answered in time: self-fenced") // no dispatcher answered
	errDrained = errors.New("the worker is draining")
)

// lease is one attempt that this worker holds, from claim to commit.
type lease struct {
	store.LeaseRef
	msg   queue.Message
	ctx   context.Context // of the attempt; ends with one of the causes above
	end   context.CancelCauseFunc
	until time.Time // earliest end; monotonic; guarded by leases.mu

	phase phase // guarded by leases.mu
}

// owner returns the owner of the objects that are stored under l for a job of the tenant.
func (l *lease) owner(tenant string) transfer.Owner {
	return transfer.Owner{Tenant: tenant, Job: l.Job, Lease: l.Lease}
}

// phase is the stage of an attempt.
type phase int

const (
	preparing phase = iota // no process or sandbox of the program exists
	running                // a sandbox may exist
	reporting              // the sandbox is gone, the result is being sent
)

// leases is all leases that the worker holds.
type leases struct {
	mu   sync.Mutex
	held map[store.LeaseRef]*lease

	// early records cancels of leases that are not held yet: a cancel can overtake the answer to
	// the claim.
	early map[store.LeaseRef]time.Time
}

func newLeases() *leases {
	return &leases{held: map[store.LeaseRef]*lease{}, early: map[store.LeaseRef]time.Time{}}
}

// add holds a new lease. It cancels the lease at once if its cancel came first. It returns nil if
// the lease is held already: the job was delivered twice, and the dispatcher repeated its answer.
func (ls *leases) add(ctx context.Context, ref store.LeaseRef, msg queue.Message, until time.Time) *lease {
	l := &lease{LeaseRef: ref, msg: msg, until: until}
	ls.mu.Lock()
	if ls.held[ref] != nil {
		ls.mu.Unlock()
		return nil
	}
	l.ctx, l.end = context.WithCancelCause(ctx)
	ls.held[ref] = l
	_, canceled := ls.early[ref]
	delete(ls.early, ref)
	ls.mu.Unlock()
	if canceled {
		l.end(runtime.ErrCanceled)
	}
	return l
}

// remove drops a lease that is committed, handed back or given up.
func (ls *leases) remove(l *lease) {
	ls.mu.Lock()
	delete(ls.held, l.LeaseRef)
	ls.mu.Unlock()
	l.end(context.Canceled) // releases the context; an earlier cause stays
}

func (ls *leases) all() []*lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	out := make([]*lease, 0, len(ls.held))
	for _, l := range ls.held {
		out = append(out, l)
	}
	return out
}

// count returns the number of leases held, and how many of them only have their report left.
func (ls *leases) count() (held, unrecorded int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.held {
		if l.phase == reporting {
			unrecorded++
		}
	}
	return len(ls.held), unrecorded
}

// renew extends the given leases that are not lost, to until.
func (ls *leases) renew(some []*lease, lost map[store.LeaseRef]bool, until time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range some {
		if !lost[l.LeaseRef] && until.After(l.until) {
			l.until = until
		}
	}
}

// over reports whether l has ended, so that no report is accepted under it.
func (ls *leases) over(l *lease) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return !time.Now().Before(l.until)
}

// deadline returns the currently known end of l.
func (ls *leases) deadline(l *lease) time.Time {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.until
}

// enter sets the phase of l.
func (ls *leases) enter(l *lease, p phase) {
	ls.mu.Lock()
	l.phase = p
	ls.mu.Unlock()
}

// cancel ends the attempt of ref at a client's request.
func (ls *leases) cancel(ref store.LeaseRef, now time.Time) {
	ls.mu.Lock()
	l := ls.held[ref]
	if l == nil {
		for old, at := range ls.early { // few: cancels that raced a claim
			if now.Sub(at) > time.Minute {
				delete(ls.early, old)
			}
		}
		ls.early[ref] = now
	}
	ls.mu.Unlock()
	if l != nil {
		l.end(runtime.ErrCanceled)
	}
}

// endEach ends the attempts of refs.
func (ls *leases) endEach(refs []store.LeaseRef, cause error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, ref := range refs {
		if l := ls.held[ref]; l != nil {
			l.end(cause)
		}
	}
}

// endIf ends the running attempts for which cond holds, and returns how many it ended.
func (ls *leases) endIf(cause error, cond func(*lease) bool) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := 0
	for _, l := range ls.held {
		if l.phase != reporting && l.ctx.Err() == nil && cond(l) {
			l.end(cause)
			n++
		}
	}
	return n
}
