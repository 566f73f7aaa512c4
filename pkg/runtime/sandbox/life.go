package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// errUsed is said to who uses a slot twice.
var errUsed = errors.New("the slot has been used or closed")

// Life is how far a slot is: ready for its one attempt, which its zero value is, taken by it, closed.
type Life struct{ state atomic.Int32 }

const (
	lifeReady int32 = iota
	lifeTaken
	lifeClosed
)

// Take gives the slot to a, and fails if it was taken or closed before, or if ctx has ended. If
// ctx has ended with runtime.ErrCanceled, that is no error: the report is a's, and nothing runs.
func (l *Life) Take(ctx context.Context, a *Attempt) (canceled *runtime.Report, err error) {
	if !l.state.CompareAndSwap(lifeReady, lifeTaken) {
		return nil, errUsed
	}
	return Canceled(ctx, a, context.Cause(ctx))
}

// Canceled is the report of an attempt of which nothing runs, if ctx has ended with runtime.ErrCanceled; else the error is err.
func Canceled(ctx context.Context, a *Attempt, err error) (canceled *runtime.Report, _ error) {
	if !errors.Is(context.Cause(ctx), runtime.ErrCanceled) {
		return nil, err
	}
	r := &runtime.Report{StartedAt: time.Now()}
	r.Outcome, r.State, r.Message = job.OutcomeCanceled, job.Canceled, runtime.ErrCanceled.Error()
	r.Enforcement = a.Plan.Enforcement
	return r, nil
}

// Close ends it, and reports whether it went on until now.
func (l *Life) Close() bool { return l.state.Swap(lifeClosed) != lifeClosed }

// Closed reports whether it has ended.
func (l *Life) Closed() bool { return l.state.Load() == lifeClosed }
