package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Bounds of the canary jobs.
const (
	canaryTime     = time.Minute // of one job
	canaryTries    = 3           // at an isolation, before the worker stops offering it
	canaryPause    = time.Second // after a failure; doubled each time
	canaryPauseMax = 30 * time.Second
)

// Proof is the result of the canary jobs on this host. Before they have run, the host offers
// nothing.
type Proof struct {
	runtime runtime.Runtime
	prover  runtime.Prover // nil: no canary jobs run
	image   string         // of the canary jobs

	mu   sync.Mutex
	host policy.Host
	why  string        // why the worker takes no jobs yet; "" once it does
	over chan struct{} // closed when the worker takes jobs
}

// NewProof returns the state before Run. If the runtime cannot run canary jobs, or image is empty,
// NewProof trusts the isolations that the runtime reports.
func NewProof(r runtime.Runtime, image string) *Proof {
	p := &Proof{runtime: r, image: image, over: make(chan struct{})}
	host := r.Host()
	prover, ok := r.(runtime.Prover)
	if !ok || image == "" {
		p.set(host, "")
		return p
	}
	p.prover, host.Isolations = prover, nil
	p.set(host, "no canary job has run here yet")
	return p
}

// State returns the proven host and why no jobs are taken yet, or "" once they are.
func (p *Proof) State() (host policy.Host, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host, p.why
}

// Over returns a channel that is closed when jobs are taken.
func (p *Proof) Over() <-chan struct{} { return p.over }

// set stores the proven state. why is empty in the last call.
func (p *Proof) set(host policy.Host, why string) {
	p.mu.Lock()
	p.host, p.why = host, why
	if why == "" {
		close(p.over)
	}
	p.mu.Unlock()
}

// Run runs a canary job at each isolation of the runtime, and offers the isolations at which it
// succeeded. Jobs need at least isolation task, so Run repeats until that works, or ctx ends. It
// calls changed with each new state.
func (p *Proof) Run(ctx context.Context, changed func(host policy.Host, why string)) {
	if p.prover == nil {
		return
	}
	for wait := canaryPause; ctx.Err() == nil; wait = min(2*wait, canaryPauseMax) {
		host := p.runtime.Host()
		if len(host.Isolations) == 0 {
			host.Missing = append(slices.Clone(host.Missing), "isolation: this host supports no level")
		}
		works, failed := p.tryAll(ctx, host.Isolations)
		host.Isolations, host.Missing = works, slices.Concat(host.Missing, failed)
		if ctx.Err() != nil {
			return
		}
		if slices.Contains(works, policy.Task) {
			p.set(host, "")
			slog.InfoContext(ctx, "canary jobs ran", "isolations", works)
			changed(host, "")
			return
		}
		host.Isolations = nil
		missing := strings.Join(host.Missing, "; ")
		why := "no canary job runs here: " + missing
		p.set(host, why)
		changed(host, why)
		slog.ErrorContext(ctx, "canary jobs failed; not taking jobs, retrying", "missing", missing, "in", wait)
		pause.For(ctx, wait)
	}
}

// Check runs one canary job at an isolation. It fails if the worker runs none.
func (p *Proof) Check(ctx context.Context, level policy.Isolation) error {
	if p.prover == nil {
		return errNoCanary
	}
	ctx, cancel := context.WithTimeoutCause(ctx, canaryTime, errCanary)
	defer cancel()
	return p.prover.Prove(ctx, p.image, level)
}

// tryAll returns the isolations at which a canary job succeeds, and the errors of the others.
func (p *Proof) tryAll(ctx context.Context, all []policy.Isolation) (works []policy.Isolation, failed []string) {
	for _, level := range all {
		err := p.tryLevel(ctx, level)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err == nil {
			works = append(works, level)
			continue
		}
		slog.WarnContext(ctx, "isolation not offered: canary job failed", "isolation", level, "image", p.image, "error", err)
		failed = append(failed, fmt.Sprintf("isolation %s: canary job: %v", level, err))
	}
	return works, failed
}

func (p *Proof) tryLevel(ctx context.Context, level policy.Isolation) (err error) {
	for try, wait := 1, canaryPause; ; try, wait = try+1, 2*wait {
		within, cancel := context.WithTimeoutCause(ctx, canaryTime, errCanary)
		err = p.prover.Prove(within, p.image, level)
		cancel()
		if err == nil || try == canaryTries || ctx.Err() != nil {
			return err
		}
		slog.InfoContext(ctx, "canary job failed; retrying", "isolation", level, "error", err)
		pause.For(ctx, wait)
	}
}

var (
	errCanary   = errors.New("the canary job did not end in time")
	errNoCanary = errors.New("this worker runs no canary jobs")
)
