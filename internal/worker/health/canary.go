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
	canaryTime     = time.Minute // of one
	canaryTries    = 3           // at an isolation, before the worker does without it
	canaryPause    = time.Second // after a failure; doubled each time
	canaryPauseMax = 30 * time.Second
)

// Proof is what the canary jobs have shown of this host. Until they have, it offers
// nothing.
type Proof struct {
	runtime runtime.Runtime
	prover  runtime.Prover // nil: none is run
	image   string         // of the canary jobs

	mu   sync.Mutex
	host policy.Host
	why  string        // the worker takes no jobs yet; "" once it does
	over chan struct{} // closed when it does
}

// NewProof returns what is known of a runtime's host before Run has tried it. If the runtime
// cannot prove anything, or image is empty, it is taken at its word.
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

// State returns what the host offers as far as has been shown, and why no jobs are taken yet: ""
// once they are.
func (p *Proof) State() (host policy.Host, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host, p.why
}

// Over is closed when jobs are taken.
func (p *Proof) Over() <-chan struct{} { return p.over }

// set notes what has been shown; the last time, why is empty.
func (p *Proof) set(host policy.Host, why string) {
	p.mu.Lock()
	p.host, p.why = host, why
	if why == "" {
		close(p.over)
	}
	p.mu.Unlock()
}

// Run runs a canary job at each isolation that the runtime says it has, and offers
// those at which it ended well. The rest stands on isolation task: without it there is
// no point in taking jobs, so that is tried until it works, or ctx ends. changed is called
// with each state that comes to be known.
func (p *Proof) Run(ctx context.Context, changed func(host policy.Host, why string)) {
	if p.prover == nil {
		return
	}
	for wait := canaryPause; ctx.Err() == nil; wait = min(2*wait, canaryPauseMax) {
		host := p.runtime.Host()
		if len(host.Isolations) == 0 {
			host.Missing = append(slices.Clone(host.Missing), "isolation: this host offers none")
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

// tryAll returns the isolations at which a canary job ends well, and why it does not
// at the others.
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
