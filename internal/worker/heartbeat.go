package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/store"
)

// beatAgain is the pause after a failed heartbeat.
const beatAgain = time.Second

// firstBeat is the longest delay of the first heartbeat while canary jobs determine the worker's
// isolations.
const firstBeat = 2 * time.Second

// heartbeats reports the worker's state and its leases every few seconds, until ctx ends.
func (w *Worker) heartbeats(ctx context.Context) {
	next := time.NewTimer(firstBeat)
	defer next.Stop()
	select {
	case <-w.proof.Over():
		next.Reset(0)
	case <-next.C:
		next.Reset(0)
	case <-ctx.Done():
	}
	for {
		select {
		case <-next.C:
		case <-w.beat:
		case <-ctx.Done():
			return
		}
		sent := time.Now()
		if w.heartbeat(ctx) {
			next.Reset(w.interval() - time.Since(sent))
		} else {
			next.Reset(min(beatAgain, w.interval()))
		}
	}
}

// beatsPerLease divides the lease's length. The quotient bounds the heartbeat interval and the kill
// margin, however short the dispatchers make leases.
const beatsPerLease = 4

// interval is the time between heartbeats.
func (w *Worker) interval() time.Duration { return w.ofLease(w.cfg.Heartbeat) }

// margin is the time between the kill of a sandbox and the end of its lease.
func (w *Worker) margin() time.Duration { return w.ofLease(w.cfg.Margin) }

// ofLease bounds d by a part of the lease, once a dispatcher has sent the lease's length.
func (w *Worker) ofLease(d time.Duration) time.Duration {
	if ttl := time.Duration(w.ttl.Load()); ttl > 0 {
		return min(d, ttl/beatsPerLease)
	}
	return d
}

// beatNow requests a heartbeat without waiting for it.
func (w *Worker) beatNow() {
	select {
	case w.beat <- struct{}{}:
	default: // a heartbeat is due already
	}
}

// heartbeat sends one message for all leases and acts on the answer. Without an answer it returns
// false and changes nothing: the fence decides.
func (w *Worker) heartbeat(ctx context.Context) bool {
	held := w.leases.all()
	refs := make([]store.LeaseRef, len(held))
	for i, l := range held {
		refs[i] = l.LeaseRef
		_ = l.msg.InProgress() // if this fails, the job is delivered twice and the second claim refused
	}
	info, sent := w.info(), time.Now() // leases count from before the request
	info.Beat = int64(sent.Sub(w.started))
	ctx, cancel := context.WithTimeout(ctx, w.interval())
	defer cancel()
	reply, err := w.Control.Heartbeat(ctx, control.HeartbeatRequest{Worker: info, Leases: refs, Sessions: w.heldSessions()})
	if err != nil {
		if ctx.Err() != context.Canceled {
			slog.WarnContext(ctx, "heartbeat not acknowledged", "error", err, "leases", len(refs))
		}
		return false
	}
	w.speak(ctx, reply.Protocol)
	w.answered.Store(int64(sent.Sub(w.started)) + 1) // 0: never
	w.ttl.Store(int64(reply.TTL))
	w.sources.share(ctx, reply.Exclusive)
	w.refusal(ctx, reply)
	if reply.Refused == "" {
		w.ordered(ctx, reply.Rest.D(), reply.Cordoned)
	}
	lost := make(map[store.LeaseRef]bool, len(reply.Lost))
	for _, ref := range reply.Lost {
		lost[ref] = true
	}
	w.leases.renew(held, lost, sent.Add(reply.TTL.D()))
	w.leases.endEach(reply.Lost, errLost) // without effect on an attempt that is being reported
	w.leases.endEach(reply.Canceled, runtime.ErrCanceled)
	if w.sessions != nil {
		w.sessions.Lose(reply.LostSessions)
		w.sessions.Confirm(sent, reply.SessionTTL.D())
	}
	return true
}

// heldSessions returns the sessions that a heartbeat reports.
func (w *Worker) heldSessions() []job.ID {
	if w.sessions == nil {
		return nil
	}
	return w.sessions.IDs()
}

// ordered stops taking jobs for d, as a dispatcher ordered. Zero ends an earlier order.
func (w *Worker) ordered(ctx context.Context, d time.Duration, cordoned bool) {
	if was := w.cordoned.Swap(cordoned); was != cordoned {
		slog.InfoContext(ctx, "cordon changed", "cordoned", cordoned)
	}
	if cordoned || d == 0 {
		w.breaker.Rest(d)
		return
	}
	w.breaker.Quarantine(ctx, d)
}

// speak switches to a version of the protocol.
func (w *Worker) speak(ctx context.Context, version int) {
	version = min(version, control.Protocol)
	if before := w.spoken.Swap(int64(version)); int(before) != version {
		slog.InfoContext(ctx, "protocol with the dispatchers", "version", version, "before", before, "highest", control.Protocol)
	}
}

// refusal stops taking jobs while another worker has this worker's name, and logs that.
func (w *Worker) refusal(ctx context.Context, reply control.HeartbeatReply) {
	before := w.refusedWhy()
	w.refused.Store(&reply.Refused)
	if reply.Refused != "" && before != reply.Refused {
		slog.ErrorContext(ctx, "worker rejected by the fleet; not taking jobs", "why", reply.Refused)
	}
	if reply.Refused != "" {
		w.breaker.Rest(reply.Rest.D())
	}
}

// refusedWhy returns why the fleet refuses this worker, or "".
func (w *Worker) refusedWhy() string {
	if why := w.refused.Load(); why != nil {
		return *why
	}
	return ""
}

// cancels ends attempts as soon as their cancel arrives, until ctx ends. Heartbeats repeat cancels
// that were missed.
func (w *Worker) cancels(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.Control.OnCancel(ctx, w.cfg.ID, func(ref store.LeaseRef) { w.leases.cancel(ref, time.Now()) })
		if err == nil {
			return // listening
		}
		slog.WarnContext(ctx, "not subscribed to cancels; retrying", "error", err)
		pause.For(ctx, time.Second)
	}
}

// classes receives the classes of jobs that exist, until ctx ends. Dispatchers repeat them, so a
// missed one comes again.
func (w *Worker) classes(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.Control.OnClasses(ctx, w.cfg.Pool, func(classes []string) { w.sources.openClasses(ctx, classes) })
		if err == nil {
			return // listening
		}
		slog.WarnContext(ctx, "not subscribed to job classes; retrying", "error", err)
		pause.For(ctx, time.Second)
	}
}

func (w *Worker) offerOf(host policy.Host) placement.Offer {
	return placement.Offer{Isolations: host.Isolations, Labels: placement.Speaking(w.cfg.Labels, control.Protocol), Images: w.cfg.Images, CPU: w.cfg.CPU, Memory: w.cfg.Memory}
}

func (w *Worker) info() control.WorkerInfo {
	held := w.pressure.Why()
	host, why := w.proof.State()
	if why != "" {
		held = why
	}
	sessions := 0
	if w.sessions != nil {
		sessions = w.sessions.Live()
	}
	load := w.load()
	return control.WorkerInfo{
		Held: held, Tally: w.tally.say(time.Now(), sessions),
		ID: w.cfg.ID, Pool: w.cfg.Pool, Version: w.cfg.Version, Protocol: control.Protocol,
		Slots: w.cfg.Slots, Busy: max(load.Running-w.capacity.LongRunning(), 0), Load: load, Draining: w.draining.Load(),
		StartedAt: w.started, Host: w.hostNow(host), Offer: w.offerOf(host),
	}
}

// hostNow returns the host with its current images.
func (w *Worker) hostNow(h policy.Host) policy.Host {
	if r, ok := w.Runtime.(runtime.ImageLister); ok {
		h.ImageDigests = r.ImageDigests()
		h.Images, h.ImagesMore = r.Images()
	}
	return h
}

// Ready returns nil if the worker takes jobs, otherwise the reason.
func (w *Worker) Ready() error {
	if w.draining.Load() {
		return errDrained
	}
	if _, why := w.proof.State(); why != "" {
		return errors.New(why)
	}
	if why := w.refusedWhy(); why != "" {
		return errors.New("refused by the fleet: " + why)
	}
	if age := w.HeartbeatAge(); w.answered.Load() == 0 || age > 3*w.interval() {
		return fmt.Errorf("no dispatcher has acknowledged a heartbeat for %v", age.Round(time.Second))
	}
	return nil
}
