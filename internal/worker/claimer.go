package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// claimLanes is the most claims under way at once.
	claimLanes = 2
	// claimFor is how long a claim is repeated before its deliveries are returned. It is less than
	// the queue's ack wait, after which they are delivered again anyway.
	claimFor = 20 * time.Second
	// suspectDelay gives another worker time to take a job that cannot run here now.
	suspectDelay = time.Second
	// unreadPause is the pause before a claim is repeated because its answer had no spec.
	unreadPause = 20 * time.Millisecond
	// requestTimeout is the longest wait for one answer.
	requestTimeout = 5 * time.Second
)

// claim turns deliveries into attempts, which take over the slots of the deliveries.
func (w *Worker) claim(ctx context.Context, ds []queue.Message) {
	if w.draining.Load() {
		w.nak(ds, 0)
		return
	}
	if w.refusedWhy() != "" {
		w.nak(ds, time.Second)
		return
	}
	progress := time.Now()
	for unread := map[store.Ref]job.Lease(nil); len(ds) > 0; {
		before := len(ds)
		if ds, unread = w.claimSome(ctx, ds, unread); len(ds) < before {
			progress = time.Now()
			continue
		}
		if time.Since(progress) > claimFor { // other specs come first, but not for ever
			slog.WarnContext(ctx, "specs of claimed jobs not received; handing the jobs back", "leases", len(ds))
			w.returnAll(ctx, ds, unread, time.Second, time.Now().Add(requestTimeout))
			return
		}
		pause.For(ctx, unreadPause)
	}
}

// claimSome claims deliveries and starts the jobs whose specs arrive. It returns deliveries that
// got a lease but whose specs did not fit into the answer. Claiming these again yields the same
// leases, which are in left. unread has such leases of the previous call.
func (w *Worker) claimSome(ctx context.Context, ds []queue.Message, unread map[store.Ref]job.Lease) (rest []queue.Message, left map[store.Ref]job.Lease) {
	asked := time.Now() // leases count from before the first request: a repeat may return an older one
	reply, err := w.askClaim(ctx, ds)
	if err != nil {
		slog.WarnContext(ctx, "claim failed; returning deliveries", "error", err, "deliveries", len(ds), "leases", len(unread))
		w.returnAll(ctx, ds, unread, time.Second, asked.Add(requestTimeout))
		return nil, nil
	}
	if reply.Rest > 0 {
		w.ordered(ctx, reply.Rest.D(), reply.Cordoned)
		w.returnAll(ctx, ds, unread, 0, asked.Add(requestTimeout))
		return nil, nil
	}
	until := asked.Add(reply.TTL.D())
	refused := 0
	left = map[store.Ref]job.Lease{}
	for i, c := range reply.Claimed {
		if c.Lease == 0 {
			if c.Later { // suspect of breaking sandboxes, while another suspect runs here
				_ = ds[i].Nak(suspectDelay)
			} else {
				_ = ds[i].Ack() // stale: finished, canceled, or another delivery won
			}
			refused++
			continue
		}
		if len(c.Spec) == 0 {
			rest = append(rest, ds[i])
			left[ds[i].Ref()] = c.Lease
			continue
		}
		ref := store.LeaseRef{Job: c.Job, Lease: c.Lease}
		l := w.leases.add(ctx, ref, ds[i], until)
		if l == nil { // runs here already; its own message is acknowledged in time
			refused++
			continue
		}
		w.attempts.Go(func() { w.attempt(l, c, reply.Secrets[c.Job]) })
	}
	w.capacity.Free(refused)
	w.metrics.claimed(ctx, len(ds)-len(rest)-refused, refused)
	return rest, left
}

// returnAll returns deliveries: those without a lease to the queue, the others to the dispatchers.
// The queue would redeliver such a job to workers whose claims are then refused.
func (w *Worker) returnAll(ctx context.Context, ds []queue.Message, unread map[store.Ref]job.Lease, delay time.Duration, until time.Time) {
	var free []queue.Message
	for _, d := range ds {
		ref := d.Ref()
		n, held := unread[ref]
		if !held {
			free = append(free, d)
			continue
		}
		w.capacity.Free(1)
		l := w.leases.add(ctx, store.LeaseRef{Job: ref.Job, Lease: n}, d, until)
		if l == nil {
			continue // it runs here from another delivery
		}
		w.leases.enter(l, reporting)
		w.releases.add(releasing{lease: l, release: store.Release{
			LeaseRef: l.LeaseRef, Reason: job.ReasonPreempted, Message: "the worker did not get to read the job",
		}})
	}
	w.nak(free, delay)
}

// askClaim sends a claim until it is answered. The effect of an unanswered claim is unknown, so it
// is repeated.
func (w *Worker) askClaim(ctx context.Context, ds []queue.Message) (control.ClaimReply, error) {
	req := control.ClaimRequest{Worker: w.cfg.ID, Since: store.IncarnationOf(w.started), Partial: true, Refs: make([]store.Ref, len(ds))}
	for i, d := range ds {
		req.Refs[i] = d.Ref()
	}
	giveUp := time.Now().Add(claimFor)
	patience := requestTimeout
	for waits := retries(50 * time.Millisecond); ; {
		reply, err := askFor(ctx, patience, w.Control.Claim, req)
		patience = max(requestTimeout, min(2*patience, time.Until(giveUp))) // specs may be large: allow the next try more time
		if err == nil && reply.Rest == 0 && len(reply.Claimed) != len(ds) {
			err = errors.New("claim answer is of another length")
		}
		switch {
		case err == nil:
			return reply, nil
		case errors.Is(err, job.ErrInvalid), time.Now().After(giveUp), w.draining.Load():
			return control.ClaimReply{}, err
		}
		pause.For(ctx, waits.NextBackOff())
	}
}

// longestRetry is the longest pause between two tries of the same request.
const longestRetry = 2 * time.Second

// retries returns the pauses between tries of the same request. Each is twice the previous one.
func retries(first time.Duration) backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{InitialInterval: first, RandomizationFactor: 0.1, Multiplier: 2, MaxInterval: longestRetry}
}

// ask makes one request with a deadline.
func ask[Q, R any](ctx context.Context, request func(context.Context, Q) (R, error), q Q) (R, error) {
	return askFor(ctx, requestTimeout, request, q)
}

func askFor[Q, R any](ctx context.Context, patience time.Duration, request func(context.Context, Q) (R, error), q Q) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return request(ctx, q)
}

// nak returns deliveries without a lease to the queue.
func (w *Worker) nak(ds []queue.Message, delay time.Duration) {
	for _, d := range ds {
		_ = d.Nak(delay) // if this is lost, the queue redelivers after its ack wait
	}
	w.capacity.Free(len(ds))
}
