package worker

import (
	"errors"
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// A verdict ends an attempt before its program runs. The job is at fault, so this is a result and
// not a failure of the worker.
type verdict struct {
	outcome job.Outcome
	message string
}

func (v *verdict) Error() string { return string(v.outcome) + ": " + v.message }

// refuse returns the verdict setup_error for a job that cannot run as requested.
func refuse(format string, args ...any) error {
	return &verdict{job.SetupError, fmt.Sprintf(format, args...)}
}

// asVerdict turns an error into a verdict if the runtime refused the job itself, as another attempt
// would fail alike. It returns other errors unchanged.
func asVerdict(err error) error {
	var v *verdict
	switch {
	case err == nil, errors.As(err, &v):
		return err
	case runtime.Refused(err):
		return refuse("%s", job.ClipMessage(refusal(err)))
	}
	return err
}

// refusal returns the text of an error that refuses a job. If the error names a field, the text
// omits its context.
func refusal(err error) string {
	if field := new(job.FieldError); errors.As(err, &field) {
		return field.Error()
	}
	return err.Error()
}

// planFor returns the plan of a job's policy for its kind of program. The plan is shared and must
// not be modified.
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
