package runtime

import (
	"errors"

	"github.com/assay-run/assay/pkg/job"
)

// ErrCanceled is the cause to end an attempt's context with when a client
// canceled its job: the program is killed and its outcome is
// job.OutcomeCanceled. Any other cause is a failure of ours.
var ErrCanceled = errors.New("canceled by a client, or with its batch")

// ErrBroken is wrapped by an error of Slot.Run, or of Acquire, when a sandbox ended,
// or did not do its part, around what ran in it. What ran there may have had a hand
// in it, or its neighbours may: see Key.Alone.
var ErrBroken = errors.New("the sandbox broke")

// BuildError says that the packages of a job cannot be had: the job's end, and
// no failure of ours.
type BuildError struct{ Message string }

func (e *BuildError) Error() string { return e.Message }

// Refused reports whether an error refuses the job itself, so that no other attempt would
// fare better: a *BuildError, job.ErrInvalid or job.ErrRefused. Any other error is a failure
// of the worker, or of something that is out of reach for now.
func Refused(err error) bool {
	failure := new(BuildError)
	return errors.Is(err, job.ErrInvalid) || errors.Is(err, job.ErrRefused) || errors.As(err, &failure)
}

// ErrImage is wrapped by Acquire's error when the image cannot be had now: its
// registry does not answer, say. It is no sign that this worker is broken.
var ErrImage = errors.New("the image cannot be had now")

// ErrStarved is wrapped by an error of Slot.Run when a program or its worker had no core for too long. The job should run
// elsewhere, or later.
var ErrStarved = errors.New("the program had no core")
