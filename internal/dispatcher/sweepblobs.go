package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// sweepBlobs removes inputs that were not requested within BlobAge and that no unfinished job
// names. In a dry run it only counts them. Uploading a blob, checking that it exists and submitting
// a job that names it all reset its age. So the age alone protects most used blobs. The jobs that
// are queried have waited long or are retried.
//
// A submit between the last check of a blob and its removal may reset the age. Its job then fails
// and reports the missing blob.
func (s *sweeper) sweepBlobs(ctx context.Context, dry bool) (found api.SweepReport, err error) {
	if s.BlobAge == 0 {
		return found, nil
	}
	if err := s.checkOwner(ctx, dry); err != nil {
		return found, err
	}
	before := time.Now().Add(-s.BlobAge)
	old, err := s.old(ctx, object.BlobPrefix, before, nil)
	if err != nil {
		return found, err
	}
	if len(old) == 0 {
		return found, nil
	}
	used, err := s.usedBlobs(ctx)
	if err != nil {
		return found, err
	}
	old = slices.DeleteFunc(old, func(o object.Info) bool { return used[o.Key] })
	found, err = s.removeOld(ctx, old, before, dry)
	found.Blobs = len(old)
	return found, err
}

// old returns the keys below a prefix whose age was not reset since before. meant selects them; nil
// selects all.
func (s *sweeper) old(ctx context.Context, prefix string, before time.Time, meant func(key string) bool) (old []object.Info, err error) {
	for o, err := range s.Objects.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if o.Modified.Before(before) && (meant == nil || meant(o.Key)) {
			old = append(old, o)
		}
		if len(old) >= sweepMost { // the rest next time
			break
		}
	}
	return old, nil
}

// removeOld removes the keys that are still old. In a dry run it counts their bytes.
func (s *sweeper) removeOld(ctx context.Context, old []object.Info, before time.Time, dry bool) (found api.SweepReport, err error) {
	var errs []error
	for _, o := range old {
		found.Bytes += o.Bytes
		if dry {
			continue
		}
		switch gone, err := s.removeBlob(ctx, o.Key, before); {
		case err != nil:
			errs = append(errs, err)
		case gone:
			found.Removed++
		}
	}
	return found, errors.Join(errs...)
}

// usedBlobs returns the keys that jobs need. A submit in the last half of BlobAge reset the ages of
// its blobs, even if the upload took long.
func (s *sweeper) usedBlobs(ctx context.Context) (map[string]bool, error) {
	inputs, err := s.Store.Inputs(ctx, time.Now().Add(-s.BlobAge/2))
	if err != nil {
		return nil, err
	}
	used := make(map[string]bool, len(inputs))
	for _, in := range inputs {
		key, err := object.BlobKey(in.Tenant, in.Blob)
		if err != nil {
			return nil, err
		}
		used[key] = true
	}
	return used, nil
}

// removeBlob removes a blob if it is still old.
func (s *sweeper) removeBlob(ctx context.Context, key string, before time.Time) (bool, error) {
	o, err := s.Objects.Stat(ctx, key)
	if err == nil && !o.Modified.Before(before) {
		return false, nil
	}
	if err == nil {
		err = s.Objects.Delete(ctx, key)
	}
	if errors.Is(err, job.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
