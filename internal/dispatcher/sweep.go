package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// Objects is the store of the files of attempts; *object.Store implements it.
type Objects interface {
	Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error)
	Put(ctx context.Context, key string, r io.Reader) (object.Info, error)
	Stat(ctx context.Context, key string) (object.Info, error)
	List(ctx context.Context, prefix string) iter.Seq2[object.Info, error]
	Delete(ctx context.Context, key string) error
	DeletePrefix(ctx context.Context, prefix string) (int, error)
	SweepTemp(ctx context.Context, age time.Duration) (int, error)
}

// sweeperStore is the part of the store that a sweeper needs.
type sweeperStore interface {
	// Fleet, Orphans and Inputs are methods of store.Store.
	Fleet(ctx context.Context) (string, error)
	Orphans(ctx context.Context, refs []store.LeaseRef) ([]store.LeaseRef, error)
	Inputs(ctx context.Context, since time.Time) ([]store.Input, error)
	ForgetEnvironments(ctx context.Context, age time.Duration) (int64, error)
}

// sweeper removes the objects of attempts that did not become the record. A worker removes its own
// objects, unless it is killed or the object store is not available. Every field is required unless
// marked otherwise.
type sweeper struct {
	Store      sweeperStore
	Objects    Objects // nil: there is nothing to sweep
	Leads      func() bool
	Removed    func(ctx context.Context, kind string, n int64) // counts the removed objects
	SweepEvery time.Duration
	OrphanAge  time.Duration // younger objects are not swept
	BlobAge    time.Duration // inputs and environments that were not requested within it are removed; 0: never
	Retention  time.Duration // jobs that ended longer ago are removed; 0: never
	Log        *slog.Logger

	sweeping sync.Mutex
}

// sweptKinds are the kinds of removed objects, as passed to Removed.
var sweptKinds = []string{"object", "blob"}

// Sweep sweeps once, outside the schedule. With dry it only counts.
func (s *sweeper) Sweep(ctx context.Context, dry bool) (api.SweepReport, error) {
	if s.Objects == nil {
		return api.SweepReport{}, fmt.Errorf("%w: this dispatcher has no object store to sweep", job.ErrUnavailable)
	}
	found, err := s.runExclusively(ctx, dry, s.sweep)
	if err != nil {
		return found, err
	}
	blobs, err := s.runExclusively(ctx, dry, s.sweepBlobs)
	found.Blobs, found.Bytes, found.Removed = blobs.Blobs, found.Bytes+blobs.Bytes, found.Removed+blobs.Removed
	if err != nil {
		return found, err
	}
	environments, err := s.runExclusively(ctx, dry, s.sweepEnvironments)
	found.Environments, found.Bytes, found.Removed = environments.Environments, found.Bytes+environments.Bytes, found.Removed+environments.Removed
	return found, err
}

// sweepFunc sweeps one kind of object.
type sweepFunc func(ctx context.Context, dry bool) (api.SweepReport, error)

// runExclusively sweeps unless a sweep is running.
func (s *sweeper) runExclusively(ctx context.Context, dry bool, sweep sweepFunc) (api.SweepReport, error) {
	if !s.sweeping.TryLock() {
		return api.SweepReport{}, fmt.Errorf("%w: a sweep is under way at this dispatcher", job.ErrUnavailable)
	}
	defer s.sweeping.Unlock()
	found, err := sweep(ctx, dry)
	found.DryRun = dry
	return found, err
}

const (
	sweepChunk = 500     // attempts in one query of the store
	sweepMost  = 100_000 // attempts removed in one sweep
	// If more than sweepFew attempts, and more than half of all, seem orphaned although no record of their time was
	// deleted, the database is probably the wrong one.
	sweepFew = 100
	// fleetKey is the object that names the fleet of the other objects.
	fleetKey = "fleet"
)

// Run sweeps regularly while this dispatcher leads, until ctx ends.
func (s *sweeper) Run(ctx context.Context) {
	if s.Objects == nil {
		return
	}
	tick := time.NewTicker(s.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !s.Leads() {
			continue
		}
		for kind, sweep := range map[string]sweepFunc{"object": s.sweep, "blob": s.sweepBlobs, "environment": s.sweepEnvironments} {
			found, err := s.runExclusively(ctx, false, sweep)
			if err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "sweep of the object store failed", "kind", kind, "error", err)
			}
			if n := found.Removed; n > 0 {
				s.Log.InfoContext(ctx, "orphaned objects deleted", "kind", kind, "objects", n)
				s.Removed(ctx, kind, int64(n))
			}
		}
	}
}

// storedAttempt is one attempt that has objects.
type storedAttempt struct {
	store.LeaseRef
	prefix string
	bytes  int64
}

// sweep makes one pass over the object store. It skips objects younger than OrphanAge, because their attempts may
// still run. This also gives time to notice objects of another owner, for example after the restore of an old backup.
// With dry it removes and writes nothing.
func (s *sweeper) sweep(ctx context.Context, dry bool) (found api.SweepReport, err error) {
	if err := s.checkOwner(ctx, dry); err != nil {
		return found, err
	}
	var orphaned, asked []storedAttempt
	young := func(as []storedAttempt) (n int) {
		for _, a := range as {
			if s.Retention == 0 || time.Since(a.Job.Time()) < s.Retention {
				n++
			}
		}
		return n
	}
	all := 0
	for a, err := range s.attempts(ctx, time.Now().Add(-s.OrphanAge)) {
		if err != nil {
			return found, err
		}
		found.Attempts++
		all += young([]storedAttempt{a})
		if asked = append(asked, a); len(asked) == sweepChunk {
			if orphaned, err = s.orphans(ctx, orphaned, asked); err != nil {
				return found, err
			}
			asked = asked[:0]
		}
		if len(orphaned) >= sweepMost { // the rest next time
			break
		}
	}
	if orphaned, err = s.orphans(ctx, orphaned, asked); err != nil {
		return found, err
	}
	if n := young(orphaned); n > sweepFew && n > all/2 {
		return found, fmt.Errorf("%w: %d of %d attempts in the object store have no record in this database; nothing is deleted: check that database and store belong together", job.ErrRefused, n, all)
	}
	found.Orphaned = len(orphaned)
	for _, a := range orphaned {
		found.Bytes += a.bytes
	}
	if dry {
		return found, nil
	}
	return found, s.remove(ctx, orphaned, &found)
}

// remove runs after the listing, which would otherwise skip entries.
func (s *sweeper) remove(ctx context.Context, orphaned []storedAttempt, found *api.SweepReport) error {
	var errs []error
	for _, a := range orphaned {
		n, err := s.Objects.DeletePrefix(ctx, a.prefix)
		found.Removed += n
		errs = append(errs, err)
	}
	n, err := s.Objects.SweepTemp(ctx, s.OrphanAge)
	found.Removed += n
	return errors.Join(append(errs, err)...)
}

// checkOwner rejects an object store that is marked for another fleet. It marks an unmarked store, unless it must not
// write. A dispatcher with the wrong address, or with a copy of a database, must not remove unknown objects.
func (s *sweeper) checkOwner(ctx context.Context, dry bool) error {
	name, err := s.Store.Fleet(ctx)
	if err != nil {
		return err
	}
	owner, err := s.owner(ctx)
	if errors.Is(err, job.ErrNotFound) {
		if dry {
			return nil
		}
		if _, err := s.Objects.Put(ctx, fleetKey, strings.NewReader(name)); err != nil {
			return err
		}
		owner, err = s.owner(ctx)
	}
	if err != nil {
		return err
	}
	if owner != name {
		return fmt.Errorf("%w: the object store belongs to fleet %q by its object %q, and this fleet is %q; nothing is deleted", job.ErrRefused, owner, fleetKey, name)
	}
	return nil
}

func (s *sweeper) owner(ctx context.Context) (string, error) {
	r, _, err := s.Objects.Get(ctx, fleetKey)
	if err != nil {
		return "", err
	}
	defer r.Close()
	name, err := io.ReadAll(io.LimitReader(r, 100))
	return strings.TrimSpace(string(name)), err
}

// attempts yields the attempts whose newest object is from before. The listing is in key order, so
// the objects of one attempt come together.
func (s *sweeper) attempts(ctx context.Context, before time.Time) iter.Seq2[storedAttempt, error] {
	return func(yield func(storedAttempt, error) bool) {
		var last storedAttempt
		old := false
		for o, err := range s.Objects.List(ctx, "") {
			if err != nil {
				yield(storedAttempt{}, err)
				return
			}
			prefix, id, lease, ok := object.AttemptOf(o.Key)
			if !ok {
				continue
			}
			if prefix != last.prefix {
				if old && !yield(last, nil) {
					return
				}
				last, old = storedAttempt{store.LeaseRef{Job: id, Lease: lease}, prefix, 0}, true
			}
			old = old && o.Modified.Before(before)
			last.bytes += o.Bytes
		}
		if old {
			yield(last, nil)
		}
	}
}

// orphans appends the orphaned attempts to out.
func (s *sweeper) orphans(ctx context.Context, out, asked []storedAttempt) ([]storedAttempt, error) {
	refs := make([]store.LeaseRef, len(asked))
	of := make(map[store.LeaseRef][]storedAttempt, len(asked))
	for i, a := range asked {
		refs[i] = a.LeaseRef
		of[a.LeaseRef] = append(of[a.LeaseRef], a)
	}
	found, err := s.Store.Orphans(ctx, refs)
	if err != nil {
		return out, err
	}
	for _, l := range found {
		out = append(out, of[l]...)
		delete(of, l)
	}
	return out, nil
}
