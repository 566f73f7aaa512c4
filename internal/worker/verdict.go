package worker

import (
	"errors"
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
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

// asVerdict turns the error of an attempt into the job's end if the runtime refused the job
// itself: another attempt would end alike. Other errors are returned as they are.
func asVerdict(err error) error {
	var v *verdict
	switch {
	case err == nil, errors.As(err, &v):
		return err
	case runtime.Refused(err):
		return refuse("%s", clip(refusal(err)))
	}
	return err
}

// refusal is the text of an error that refuses a job: of the field, if it names one, without
// what the worker was doing.
func refusal(err error) string {
	if field := new(job.FieldError); errors.As(err, &field) {
		return field.Error()
	}
	return err.Error()
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
