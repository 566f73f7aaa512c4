package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Bounds of the canary jobs.
const (
	canaryTime     = time.Minute // of one
	canaryTries    = 3           // at an isolation, before the worker does without it
	canaryPause    = time.Second // after a failure; doubled each time
	canaryPauseMax = 30 * time.Second

	// firstBeat is how long a worker that is about to know what it offers is not heard of.
	firstBeat = 2 * time.Second
)

// proof is what the canary jobs have shown of this host. Until they have, it offers
// nothing.
type proof struct {
	mu   sync.Mutex
	host policy.Host
	why  string        // the worker takes no jobs yet; "" once it does
	over chan struct{} // closed when it does
}

func (p *proof) state() (host policy.Host, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host, p.why
}

// set notes what has been shown; the last time, why is empty.
func (p *proof) set(host policy.Host, why string) {
	p.mu.Lock()
	p.host, p.why = host, why
	if why == "" {
		close(p.over)
	}
	p.mu.Unlock()
}

// unproved is what is known of the host before Run has tried it.
func (w *Worker) unproved() (host policy.Host, why string) {
	host = w.Runtime.Host()
	if _, ok := w.Runtime.(runtime.Prover); !ok || w.cfg.CanaryImage == "" {
		return host, ""
	}
	host.Isolations = nil
	return host, "no canary job has run here yet"
}

// prove runs a canary job at each isolation that the runtime says it has, and offers
// those at which it ended well. The rest stands on isolation task: without it there is
// no point in taking jobs, so that is tried until it works, or ctx ends.
func (w *Worker) prove(ctx context.Context) {
	prover, ok := w.Runtime.(runtime.Prover)
	if _, why := w.proof.state(); !ok || why == "" {
		return
	}
	for wait := canaryPause; ctx.Err() == nil; wait = min(2*wait, canaryPauseMax) {
		host := w.Runtime.Host()
		if len(host.Isolations) == 0 {
			host.Missing = append(slices.Clone(host.Missing), "isolation: this host offers none")
		}
		works, failed := w.tryAll(ctx, prover, host.Isolations)
		host.Isolations, host.Missing = works, slices.Concat(host.Missing, failed)
		if ctx.Err() != nil {
			return
		}
		if slices.Contains(works, policy.Task) {
			w.proof.set(host, "")
			w.serveFrom(host)
			slog.InfoContext(ctx, "canary jobs ran", "isolations", works)
			w.beatNow()
			return
		}
		host.Isolations = nil
		why := strings.Join(host.Missing, "; ")
		w.proof.set(host, "no canary job runs here: "+why)
		w.beatNow()
		slog.ErrorContext(ctx, "no canary job runs here, so no jobs are taken; trying again", "missing", why, "in", wait)
		pause(ctx, wait)
	}
}

// tryAll returns the isolations at which a canary job ends well, and why it does not
// at the others.
func (w *Worker) tryAll(ctx context.Context, p runtime.Prover, all []policy.Isolation) (works []policy.Isolation, failed []string) {
	for _, level := range all {
		err := w.tryLevel(ctx, p, level)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err == nil {
			works = append(works, level)
			continue
		}
		slog.WarnContext(ctx, "an isolation is not offered: its canary job fails", "isolation", level, "image", w.cfg.CanaryImage, "error", err)
		failed = append(failed, fmt.Sprintf("isolation %s: canary job: %v", level, err))
	}
	return works, failed
}

func (w *Worker) tryLevel(ctx context.Context, p runtime.Prover, level policy.Isolation) (err error) {
	for try, wait := 1, canaryPause; ; try, wait = try+1, 2*wait {
		within, cancel := context.WithTimeoutCause(ctx, canaryTime, errCanary)
		err = p.Prove(within, w.cfg.CanaryImage, level)
		cancel()
		if err == nil || try == canaryTries || ctx.Err() != nil {
			return err
		}
		slog.InfoContext(ctx, "a canary job failed; trying again", "isolation", level, "error", err)
		pause(ctx, wait)
	}
}

var errCanary = errors.New("the canary job did not end in time")

// serveFrom makes what depends on the isolations that are offered.
func (w *Worker) serveFrom(host policy.Host) {
	w.planner = policy.NewPlanner(host)
	w.sources.proved(w.offerOf(host))
}
