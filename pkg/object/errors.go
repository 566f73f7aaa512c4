package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gocloud.dev/gcerrors"

	"github.com/assay-run/assay/pkg/job"
)

// translate converts an error of the blob library into an error of package job. Context errors stay
// unchanged.
func translate(err error, what, key string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s object %s: %w", what, key, err)
	}
	kind := job.ErrUnavailable
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		if what != "put" { // the bucket or directory is missing, not an object
			kind = job.ErrNotFound
		}
	case gcerrors.InvalidArgument:
		kind = job.ErrInvalid
	}
	return fmt.Errorf("%s object %s: %w: %w", what, key, kind, err)
}

// rootCause extracts the file system's error from the library's.
func rootCause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path
	}
	return err
}
