package runtime

import "errors"

// ErrCanceled is the cause to end an attempt's context with when a client
// canceled its job: the program is killed and its outcome is
// job.OutcomeCanceled. Any other cause is a failure of ours.
var ErrCanceled = errors.New("canceled by a client")

// BuildError says that the packages of a job cannot be had: the job's end, and
// no failure of ours.
type BuildError struct{ Message string }

func (e *BuildError) Error() string { return e.Message }

// ErrImage is wrapped by Acquire's error when the image cannot be had now: its
// registry does not answer, say. It is no sign that this worker is broken.
var ErrImage = errors.New("the image cannot be had now")
