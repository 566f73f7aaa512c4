// Package fake is a runtime without walls, for tests and measurements of the control plane. It
// never runs a program.
//
// New returns a runtime that follows a script in the job (see script.go). So a test controls the
// duration, outcome, artifacts and failures of each job. Noop returns one that does nothing, as
// fast as possible, and reports this in the enforcement report.
package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	rt "github.com/assay-run/assay/pkg/runtime"
)

// MissingImage is a part of the names of images that do not exist in this runtime.
const MissingImage = "no-such-image"

// Func decides how one attempt ends, instead of its script.
type Func func(ctx context.Context, key rt.Key, a rt.Attempt) (*rt.Report, error)

// Runtime is a fake rt.Runtime.
type Runtime struct {
	run  Func
	host policy.Host

	// FailAcquire, if set, is called before each slot is created. Set it before the runtime is used.
	FailAcquire func(rt.Key) error

	// FailProve, if set, returns the result of a canary job with an isolation. Set it before the
	// runtime is used.
	FailProve func(policy.Isolation) error

	live    atomic.Int64
	started atomic.Int64
	mu      sync.Mutex
	closed  bool
	images  map[string]string // name → digest, for requested names
}

var (
	_ rt.Runtime = (*Runtime)(nil)
	_ rt.Prover  = (*Runtime)(nil)
	_ rt.Slot    = (*slot)(nil)
)

// New returns a runtime that runs f, or each job's own script if f is nil.
func New(f Func) *Runtime {
	if f == nil {
		f = runScript
	}
	return &Runtime{run: f, host: host()}
}

// Noop returns a runtime whose attempts all succeed at once without doing anything.
func Noop() *Runtime { return New(noop) }

// host claims to support cells and tasks, so that most jobs can be planned. The report of each
// attempt then states that nothing was enforced.
func host() policy.Host {
	return policy.Host{
		Isolations: []policy.Isolation{policy.Cell, policy.Task},
		Cores:      runtime.NumCPU(),
		Memory:     1 << 50,
	}
}

// Live returns how many slots are open.
func (r *Runtime) Live() int { return int(r.live.Load()) }

// Started returns the number of attempts so far.
func (r *Runtime) Started() int { return int(r.started.Load()) }

// Host implements rt.Runtime.
func (r *Runtime) Host() policy.Host { return r.host }

// Acquire implements rt.Runtime.
func (r *Runtime) Acquire(ctx context.Context, key rt.Key) (rt.Slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if strings.Contains(key.Image, MissingImage) {
		return nil, fmt.Errorf("image %q: %w", key.Image, job.ErrInvalid)
	}
	if r.FailAcquire != nil {
		if err := r.FailAcquire(key); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("runtime is closed")
	}
	if r.images[key.Image] == "" && len(r.images) < 100 {
		if r.images == nil {
			r.images = map[string]string{}
		}
		r.images[key.Image] = digestOf(key.Image)
	}
	r.live.Add(1)
	return &slot{rt: r, key: key}, nil
}

// Prove implements rt.Prover.
func (r *Runtime) Prove(ctx context.Context, _ string, isolation policy.Isolation) error {
	if r.FailProve != nil {
		return r.FailProve(isolation)
	}
	return context.Cause(ctx)
}

// Close implements rt.Runtime.
func (r *Runtime) Close(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

type slot struct {
	rt     *Runtime
	key    rt.Key
	used   atomic.Bool
	closed atomic.Bool
}

// Run implements rt.Slot.
func (s *slot) Run(ctx context.Context, a rt.Attempt) (*rt.Report, error) {
	if s.used.Swap(true) || s.closed.Load() {
		return nil, errors.New("slot was used before")
	}
	s.rt.started.Add(1)
	return s.rt.run(ctx, s.key, a)
}

// Start implements rt.Slot. It returns after the attempt, because there is no program.
func (s *slot) Start(ctx context.Context, a rt.Attempt) (rt.Process, error) {
	rep, err := s.Run(ctx, a)
	if err != nil {
		return nil, err
	}
	return over{rep}, nil
}

// over is a program that never started.
type over struct{ report *rt.Report }

// Conn implements rt.Process.
func (over) Conn() net.Conn { return nil }

// Stop implements rt.Process.
func (over) Stop() {}

// Wait implements rt.Process.
func (o over) Wait() (*rt.Report, error) { return o.report, nil }

// Close implements rt.Slot.
func (s *slot) Close() {
	if !s.closed.Swap(true) {
		s.rt.live.Add(-1)
	}
}

var exitZero = 0

func noop(ctx context.Context, _ rt.Key, a rt.Attempt) (*rt.Report, error) {
	if ctx.Err() != nil {
		return ended(ctx, time.Now())
	}
	rep := &rt.Report{StartedAt: time.Now()}
	rep.Outcome = job.Succeeded
	rep.ExitCode = &exitZero
	rep.Enforcement = unenforced(a.Plan)
	return rep, nil
}

// unenforced returns the plan's report with nothing enforced. Reports are shared between a plan's
// attempts and read-only.
func unenforced(p *policy.Plan) []job.Enforcement {
	if p == nil {
		return nil
	}
	if known, ok := reports.Load(p); ok {
		return known.([]job.Enforcement)
	}
	out := make([]job.Enforcement, len(p.Enforcement))
	for i, e := range p.Enforcement {
		e.Applied, e.Mechanism, e.Level = "", "fake runtime: nothing is run", job.LevelNone
		out[i] = e
	}
	if reportCount.Add(1) <= 1024 { // plans are few; a caller with one per job must not fill the memory
		reports.Store(p, out)
	}
	return out
}

var (
	reports     sync.Map // *policy.Plan → []job.Enforcement
	reportCount atomic.Int64
)

// ended returns the result of an attempt whose context ended.
func ended(ctx context.Context, started time.Time) (*rt.Report, error) {
	if cause := context.Cause(ctx); !errors.Is(cause, rt.ErrCanceled) {
		return nil, fmt.Errorf("killed: %w", cause)
	}
	rep := &rt.Report{StartedAt: started}
	rep.Outcome = job.OutcomeCanceled
	rep.Usage.WallMS = job.Milliseconds(time.Since(started))
	return rep, nil
}
