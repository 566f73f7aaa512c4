package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// noSlot is why there was no slot: nothing of the job ran in it.
type noSlot struct{ error }

func (n *noSlot) Error() string { return "acquire a slot: " + n.error.Error() }
func (n *noSlot) Unwrap() error { return n.error }

// failedRun is the error of a slot around a program that may have run.
type failedRun struct{ error }

func (f *failedRun) Error() string { return "run: " + f.error.Error() }
func (f *failedRun) Unwrap() error { return f.error }

// sandboxOf returns the isolation at which a sandbox failed, "" if err is about something
// else, such as the object store. A canary job at that isolation would meet the same failure.
func (a *attempt) sandboxOf(err error) string {
	unmade, failed := new(noSlot), new(failedRun)
	if errors.As(err, &unmade) || errors.As(err, &failed) {
		return string(a.isolation())
	}
	return ""
}

// runOrBlame runs the job, or its compiler, and, if its sandbox breaks, runs it again, with nobody
// beside it. What breaks then has been broken by the job, twice: that is an end of
// its own, no failure of ours. So a job cannot choose to have no verdict, and those
// that lost their sandbox to a neighbour are none the worse: the attempt goes on
// under its lease, and nobody is charged.
func runOrBlame[T any](ctx context.Context, a *attempt, run func() (*T, error)) (*T, error) {
	res, err := run()
	if !errors.Is(err, runtime.ErrBroken) || ctx.Err() != nil {
		return res, err
	}
	slog.WarnContext(ctx, "sandbox broken; rerunning the job in isolation", "job", a.lease.Job, "tenant", a.claimed.Tenant, "error", err)
	a.alone = string(a.lease.Job)
	if a.kept != nil && len(a.kept.Stored().Artifacts) > 0 { // those of the first try are nobody's
		a.transfer.Discard(ctx, a.owner())
	}
	res, err = run()
	if unstarted := new(noSlot); !errors.Is(err, runtime.ErrBroken) || errors.As(err, &unstarted) || ctx.Err() != nil {
		return res, err
	}
	slog.WarnContext(ctx, "job broke two sandboxes", "job", a.lease.Job, "tenant", a.claimed.Tenant, "error", err)
	return nil, &verdict{job.PolicyViolation, "it broke its sandbox, and the next one, which it had for itself: " + clip(err.Error())}
}
