package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// errUsed is the error for a second use of a slot.
var errUsed = errors.New("the slot has been used or closed")

// Life is the state of a slot: ready for its one attempt (the zero value), taken, or closed.
type Life struct{ state atomic.Int32 }

const (
	lifeReady int32 = iota
	lifeTaken
	lifeClosed
)

// Take assigns the slot to a. It fails if the slot was taken or closed, or if ctx has ended. If ctx
// ended with runtime.ErrCanceled, it returns a's report instead of an error, and nothing runs.
func (l *Life) Take(ctx context.Context, a *Attempt) (canceled *runtime.Report, err error) {
	if !l.state.CompareAndSwap(lifeReady, lifeTaken) {
		return nil, errUsed
	}
	return Canceled(ctx, a, context.Cause(ctx))
}

// Canceled returns the report of an attempt that was canceled before it ran, if ctx ended with
// runtime.ErrCanceled. Otherwise it returns err.
func Canceled(ctx context.Context, a *Attempt, err error) (canceled *runtime.Report, _ error) {
	if !errors.Is(context.Cause(ctx), runtime.ErrCanceled) {
		return nil, err
	}
	r := &runtime.Report{StartedAt: time.Now()}
	r.Outcome, r.State, r.Message = job.OutcomeCanceled, job.Canceled, runtime.ErrCanceled.Error()
	r.Enforcement = a.Plan.Enforcement
	return r, nil
}

// Close closes the slot, and reports whether it was open.
func (l *Life) Close() bool { return l.state.Swap(lifeClosed) != lifeClosed }

// Closed reports whether the slot is closed.
func (l *Life) Closed() bool { return l.state.Load() == lifeClosed }
