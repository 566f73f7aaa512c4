package runtime

import "errors"

// ErrCanceled is the cause to end an attempt's context with when a client
// canceled its job: the program is killed and its outcome is
// job.OutcomeCanceled. Any other cause is a failure of ours.
var ErrCanceled = errors.New("canceled by a client")

// ErrImage is wrapped by Acquire's error when the image cannot be had now: its
// registry does not answer, say. It is no sign that this worker is broken.
var ErrImage = errors.New("the image cannot be had now")
