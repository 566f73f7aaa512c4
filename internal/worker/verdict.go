package worker

import (
	"errors"
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// A verdict ends an attempt before its program ran: the job is at fault, which
// is data, not a failure.
type verdict struct {
	outcome job.Outcome
	message string
}

func (v *verdict) Error() string { return string(v.outcome) + ": " + v.message }

// refuse is the verdict on a job that cannot run as it stands: what it asks for is not to
// be had.
func refuse(format string, args ...any) error {
	return &verdict{job.SetupError, fmt.Sprintf(format, args...)}
}

// planFor makes a job's policy concrete, for its kind of program. The plan is shared: nobody writes to it.
func (w *Worker) planFor(raw []byte, u policy.Use) (*policy.Plan, error) {
	plan, err := w.planner.Plan(raw, u)
	switch {
	case errors.Is(err, job.ErrInvalid), errors.Is(err, job.ErrRefused):
		return nil, refuse("%v", err) // names the field
	case err != nil:
		return nil, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}
