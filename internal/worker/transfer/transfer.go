// Package transfer moves the files of jobs and sessions between a worker and the object store:
//
//	inputs        what programs are to read, fetched once for many jobs
//	artifacts     what an attempt leaves behind
//	outputs       what a program wrote, where it is too large for its result
//	exports       what a session leaves behind, while it lives and at its end
//	environments  packages that other workers have built
//
// What an attempt stores is stored under its lease: if its result is not the record, Discard
// removes all of it.
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

// Objects is what a worker needs of the object store.
type Objects interface {
	Put(ctx context.Context, key string, r io.Reader) (object.Info, error)
	GetBlob(ctx context.Context, tenant, ref string) (io.ReadCloser, int64, error)
	Delete(ctx context.Context, key string) error
	DeletePrefix(ctx context.Context, prefix string) (int, error)
}

var _ Objects = (*object.Store)(nil)

// Owner is whose something is: all of an attempt's is stored under its lease.
type Owner struct {
	Tenant string
	Job    job.ID
	Lease  job.Lease
}

// Store takes what jobs and sessions leave to the object store.
type Store struct {
	Objects Objects
	// Kept hears of each artifact that was stored; nil: nobody does.
	Kept func(ctx context.Context, bytes int64)
	// Memory is for files that are held until they are stored; nil: unbounded.
	Memory *budget.Memory
}

const (
	// timeout is how long one object may take to or from the store.
	timeout = 5 * time.Minute
	// uploadTries is how often an upload is tried before the attempt is ours
	// to hand back.
	uploadTries = 4
)

// retryPut uploads, again while the store is away.
func retryPut(ctx context.Context, put func() (object.Info, error)) (object.Info, error) {
	for try, wait := 1, 100*time.Millisecond; ; try, wait = try+1, 4*wait {
		info, err := put()
		if err == nil || !errors.Is(err, job.ErrUnavailable) || try == uploadTries || ctx.Err() != nil {
			return info, err
		}
		pause.For(ctx, wait)
	}
}

// DiscardObjects removes objects of a result that it does not name any more. It takes at most 30 seconds.
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

// Discard removes what an owner stored: its result is not the record. What cannot
// be removed now is swept as orphaned later.
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
