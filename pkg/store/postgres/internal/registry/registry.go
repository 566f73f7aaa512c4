package registry

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Registry stores named objects. All methods are safe for concurrent use.
type Registry struct{ db *pg.DB }

// New is over a database that is open.
func New(db *pg.DB) *Registry { return &Registry{db: db} }

// Sweep is this package's part of store.Scheduler's Reap.
func (s *Registry) Sweep(ctx context.Context, _ *store.ReapStats) error {
	return errors.Join(s.forgetWorkers(ctx), s.reapOverrides(ctx))
}

// workerGone is how long after its last word a worker is still listed among all of them.
// Names come and go with the pods of a fleet.
const workerGone = 24 * time.Hour

// forgetWorkers deletes workers that were silent for long. It keeps cordoned ones: a host must not take jobs when it
// returns after a long time.
func (s *Registry) forgetWorkers(ctx context.Context) error {
	return s.db.Drain(ctx, "forget workers", `
		DELETE FROM workers w USING (
			SELECT id FROM workers WHERE seen_at < now() - $1 * interval '1 millisecond' AND cordoned_at IS NULL
			ORDER BY id LIMIT $2 OFFSET $3 FOR UPDATE SKIP LOCKED) old
		WHERE w.id = old.id`, workerGone)
}
