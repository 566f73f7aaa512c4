// Package transfer moves the files of jobs and sessions between a worker and the object store:
//
//	inputs        input files, fetched once for many jobs
//	artifacts     files that an attempt leaves
//	outputs       outputs that are too large for a result
//	exports       files that a session leaves, during its life and at its end
//	environments  packages that other workers have built
//
// An attempt stores its objects under its lease. If its result is not recorded, Discard removes all
// of them.
package transfer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/budget"
	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// Objects is the part of the object store that a worker needs.
type Objects interface {
	Put(ctx context.Context, key string, r io.Reader) (object.Info, error)
	GetBlob(ctx context.Context, tenant, ref string) (io.ReadCloser, int64, error)
	Delete(ctx context.Context, key string) error
	DeletePrefix(ctx context.Context, prefix string) (int, error)
}

var _ Objects = (*object.Store)(nil)

// Owner identifies the owner of objects. All objects of an attempt are stored under its lease.
type Owner struct {
	Tenant string
	Job    job.ID
	Lease  job.Lease
}

// Store uploads the files of jobs and sessions to the object store.
type Store struct {
	Objects Objects
	// Kept is called for each stored artifact; nil: it is not called.
	Kept func(ctx context.Context, bytes int64)
	// Memory bounds the files that are held in memory until they are stored; nil: no bound.
	Memory *budget.Memory
}

const (
	// timeout bounds one upload or download of an object.
	timeout = 5 * time.Minute
	// uploadTries is how often an upload is tried before the attempt is handed back.
	uploadTries = 4
)

// retryPut uploads, and retries while the store is unavailable.
func retryPut(ctx context.Context, put func() (object.Info, error)) (object.Info, error) {
	for try, wait := 1, 100*time.Millisecond; ; try, wait = try+1, 4*wait {
		info, err := put()
		if err == nil || !errors.Is(err, job.ErrUnavailable) || try == uploadTries || ctx.Err() != nil {
			return info, err
		}
		pause.For(ctx, wait)
	}
}

// DiscardObjects removes objects that a result no longer names. It takes at most 30 seconds.
func (s *Store) DiscardObjects(ctx context.Context, keys []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for i, key := range keys {
		if err := s.Objects.Delete(ctx, key); err != nil && !errors.Is(err, job.ErrNotFound) {
			slog.WarnContext(ctx, "orphaned objects not deleted", "first", key, "remaining", len(keys)-i, "error", err)
			return
		}
	}
}

// Discard removes the objects of an owner whose result is not recorded. Objects that cannot be
// removed now are swept later as orphans.
func (s *Store) Discard(ctx context.Context, o Owner) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	prefix, err := object.AttemptPrefix(o.Tenant, o.Job, o.Lease)
	if err == nil {
		_, err = s.Objects.DeletePrefix(ctx, prefix)
	}
	if err != nil {
		slog.WarnContext(ctx, "artifacts of a lost attempt not deleted", "job", o.Job, "lease", o.Lease, "error", err)
	}
}
