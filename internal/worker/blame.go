package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// noSlot is a failure to acquire a slot: no part of the job ran in it.
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

// runOrBlame runs the job, or its compiler. If its sandbox breaks, it runs it again in a sandbox of
// its own. If that breaks, too, the job is at fault: it gets a verdict, not an infrastructure
// failure. So a job cannot avoid a verdict by breaking its sandbox. Jobs that lost their sandbox to
// a neighbour continue under their lease, and the tenant is not charged.
func runOrBlame[T any](ctx context.Context, a *attempt, run func() (*T, error)) (*T, error) {
	res, err := run()
	if !errors.Is(err, runtime.ErrBroken) || ctx.Err() != nil {
		return res, err
	}
	slog.WarnContext(ctx, "sandbox broken; rerunning the job in isolation", "job", a.lease.Job, "tenant", a.claimed.Tenant, "error", err)
	a.sandboxGroup = string(a.lease.Job)
	if a.kept != nil && len(a.kept.Stored().Artifacts) > 0 { // artifacts of the first try belong to no record
		a.transfer.Discard(ctx, a.owner())
	}
	res, err = run()
	if unstarted := new(noSlot); !errors.Is(err, runtime.ErrBroken) || errors.As(err, &unstarted) || ctx.Err() != nil {
		return res, err
	}
	slog.WarnContext(ctx, "job broke two sandboxes", "job", a.lease.Job, "tenant", a.claimed.Tenant, "error", err)
	return nil, &verdict{job.PolicyViolation, "it broke its sandbox, and the next one, which it had for itself: " + job.ClipMessage(err.Error())}
}
