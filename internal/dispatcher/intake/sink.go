package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// sinkStore is the part of the store that a sink writes.
type sinkStore interface {
	SubmitBatch(ctx context.Context, b store.NewBatch, jobs []store.NewJob) (job.ID, error)
	OpenBatch(ctx context.Context, b store.NewBatch) (id job.ID, existed bool, err error)
	AppendJobs(ctx context.Context, batch job.ID, jobs []store.NewJob) error
	SealBatch(ctx context.Context, batch job.ID, total int64) error
}

// sink writes chunks to the store. It holds back the first one, because most batches have no
// second.
type sink struct {
	store sinkStore
	batch store.NewBatch
	first []store.NewJob
	room  room
	open  bool
	known job.ID // the batch of an earlier request with this key
}

// errDuplicate stops reading a batch that was accepted before.
var errDuplicate = errors.New("accepted before")

func (k *sink) take(ctx context.Context, jobs []store.NewJob) error {
	if k.room.left -= int64(len(jobs)); k.room.left < 0 {
		return k.room.full
	}
	if k.first == nil && !k.open {
		k.first = jobs
		return nil
	}
	if !k.open {
		id, existed, err := k.store.OpenBatch(ctx, k.batch)
		if err != nil {
			return fmt.Errorf("open batch: %w", err)
		}
		if existed {
			k.known = id
			return errDuplicate
		}
		k.open = true
		if err := k.append(ctx, k.first); err != nil {
			return err
		}
		k.first = nil
	}
	return k.append(ctx, jobs)
}

func (k *sink) append(ctx context.Context, jobs []store.NewJob) error {
	if err := k.store.AppendJobs(ctx, k.batch.ID, jobs); err != nil {
		return fmt.Errorf("append jobs: %w", err)
	}
	return nil
}

// seal makes the batch visible and returns its id.
func (k *sink) seal(ctx context.Context, total int64) (job.ID, error) {
	if !k.open {
		k.batch.Total = total
		id, err := k.store.SubmitBatch(ctx, k.batch, k.first)
		if err != nil {
			return "", fmt.Errorf("submit batch: %w", err)
		}
		return id, nil
	}
	if err := k.store.SealBatch(ctx, k.batch.ID, total); err != nil {
		return "", fmt.Errorf("seal batch: %w", err)
	}
	k.open = false
	return k.batch.ID, nil
}
