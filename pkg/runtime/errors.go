package runtime

import (
	"errors"

	"github.com/assay-run/assay/pkg/job"
)

// ErrCanceled is the cause for canceling an attempt's context when a client canceled its job: the
// program is killed with outcome job.OutcomeCanceled. Any other cause is our failure.
var ErrCanceled = errors.New("canceled by a client, or with its batch")

// ErrBroken is wrapped by an error of Slot.Run or Acquire when a sandbox failed around its program.
// This program or its neighbours may have caused it: see Key.SandboxGroup.
var ErrBroken = errors.New("the sandbox broke")

// BuildError means that a job's packages are unavailable. It ends the job and is not our failure.
type BuildError struct{ Message string }

func (e *BuildError) Error() string { return e.Message }

// Refused reports whether an error rejects the job itself, so that no other attempt would succeed:
// a *BuildError, job.ErrInvalid or job.ErrRefused. Other errors are failures of the worker, or
// temporary.
func Refused(err error) bool {
	failure := new(BuildError)
	return errors.Is(err, job.ErrInvalid) || errors.Is(err, job.ErrRefused) || errors.As(err, &failure)
}

// ErrImage is wrapped by Acquire's error when the image is temporarily unavailable, for example
// because its registry does not respond. The worker is not broken.
var ErrImage = errors.New("the image is temporarily unavailable")

// ErrStarved is wrapped by an error of Slot.Run when a program or its worker had no core for too
// long. The job should run elsewhere or later.
var ErrStarved = errors.New("the program received no CPU time")
