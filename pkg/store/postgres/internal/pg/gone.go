package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// TranslateNotFound turns job.ErrNotFound into job.ErrGone if the id is so old that retention may have removed its object.
func (db *DB) TranslateNotFound(ctx context.Context, id job.ID, err error) error {
	if !errors.Is(err, job.ErrNotFound) {
		return err
	}
	var was bool
	seen := db.Do(ctx, "look for forgotten history", func(ctx context.Context) error {
		return db.Pool.QueryRow(ctx, `SELECT coalesce((SELECT since > $1 FROM history WHERE one), false)
			AND NOT EXISTS (SELECT FROM jobs WHERE id = $2 AND `+OnDay("id", id)+`)`, id.Time(), UUID(id)).Scan(&was)
	})
	if seen != nil || !was {
		return err
	}
	return fmt.Errorf("%w: %s is from %s, and its retention has expired", job.ErrGone, id, id.Time().UTC().Format(time.DateOnly))
}
