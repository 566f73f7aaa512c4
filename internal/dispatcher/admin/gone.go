package admin

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// A restored dump brings back keys, jobs and batches that were revoked or erased after it was made. So each
// revocation and erasure also writes a note to the object store, and is repeated when the history of the database has
// changed: see Reapply.

// Kinds of notes.
const (
	tombstoneKey   = "key"
	tombstoneJob   = "job"
	tombstoneBatch = "batch"
)

// tombstoneKinds is the order in which notes are applied: revoked keys first.
var tombstoneKinds = []string{tombstoneKey, tombstoneBatch, tombstoneJob}

// recordErasure writes a note and then calls do, which erases or revokes. The note stays if do fails: do may have erased a
// part, and a concurrent or earlier erasure has the same note.
func (a *Admin) recordErasure(ctx context.Context, kind string, id job.ID, do func() error) error {
	key, err := object.TombstoneKey(kind, id)
	if err != nil {
		return err
	}
	if _, err := a.Objects.Put(ctx, key, strings.NewReader(time.Now().UTC().Format(time.RFC3339Nano)+"\n")); err != nil {
		return fmt.Errorf("note for restores: %w", err)
	}
	return do()
}

const (
	// reapplyEvery is the period of checks for a restored database.
	reapplyEvery = 10 * time.Second
	// restorer is the actor of repeated actions.
	restorer = "restore"
)

// Run calls Reapply every reapplyEvery until ctx ends.
func (a *Admin) Run(ctx context.Context) {
	tick := time.NewTicker(reapplyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := a.Reapply(ctx); err != nil && ctx.Err() == nil {
			a.Log.ErrorContext(ctx, "revocations and erasures not repeated after a restore; retrying", "error", err)
		}
	}
}

// Reapply repeats the noted revocations and erasures if the database was restored or promoted since they were last
// repeated. Call it before the first request is admitted. It returns an error if a key could not be revoked. The next
// call repeats failed erasures.
func (a *Admin) Reapply(ctx context.Context) error {
	history, err := a.Store.Restored(ctx)
	if err != nil || history == "" {
		return err
	}
	done, left := 0, 0
	for _, kind := range tombstoneKinds {
		for o, err := range a.Objects.List(ctx, object.TombstonePrefix(kind)) {
			if err != nil {
				return fmt.Errorf("list deleted objects: %w", err)
			}
			id, err := job.ParseID(path.Base(o.Key))
			if err != nil {
				continue // not a note
			}
			switch err := a.repeatErasure(ctx, kind, id); {
			case err == nil:
				done++
			case kind == tombstoneKey:
				return fmt.Errorf("revoke key %s again: %w", id, err)
			default:
				left++
				a.Log.WarnContext(ctx, "erasure not repeated after a restore; will retry", "kind", kind, "id", id, "error", err)
			}
		}
	}
	if done+left > 0 {
		a.Log.WarnContext(ctx, "database restored or promoted; revocations and erasures repeated", "done", done, "left", left, "history", history)
	}
	if left > 0 {
		return nil
	}
	return a.Store.Reapplied(ctx, history)
}

// repeatErasure repeats the revocation or erasure of a note. It cancels unfinished work first.
func (a *Admin) repeatErasure(ctx context.Context, kind string, id job.ID) (err error) {
	who := Actor{Name: restorer}
	switch kind {
	case tombstoneKey:
		_, err = a.act(ctx, who, "revoke key", string(id), "the database was restored", func(done *store.Action) error {
			_, err := a.Store.RevokeKey(ctx, done, id)
			return err
		})
	case tombstoneJob:
		err = over(func() error { _, err := a.EraseJob(ctx, who, "", id); return err },
			func() error { _, err := a.Store.Cancel(ctx, id); return err })
	case tombstoneBatch:
		err = over(func() error { _, err := a.EraseBatch(ctx, who, "", id); return err },
			func() error { _, err := a.Store.CancelBatch(ctx, id); return err })
	}
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrGone) {
		return nil
	}
	return err
}

// over calls erase, and after a job.ErrConflict cancel and erase again.
func over(erase, cancel func() error) error {
	err := erase()
	if !errors.Is(err, job.ErrConflict) {
		return err
	}
	if err := cancel(); err != nil {
		return err
	}
	return erase()
}
