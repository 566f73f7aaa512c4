package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// batchesLook is how many batches a page with filters is looked for in.
const batchesLook = 2000

// listed are the sealed batches of a tenant before one ($2, $3), back to a time ($4), in the order of an index. The
// batches of all tenants are in another index.
func listed(all bool) string {
	whose, order := `b.tenant_id = $1`, `b.tenant_id DESC, `
	if all {
		whose, order = `$1::integer = 0`, ``
	}
	return ` FROM batches b WHERE b.sealed_at IS NOT NULL AND ` + whose + ` AND (b.sealed_at, b.id) < ($2::timestamptz, $3::uuid) AND b.sealed_at >= $4::timestamptz
	ORDER BY ` + order + `b.sealed_at DESC, b.id DESC`
}

// browseBatches is a page: $6 batches to which the filters apply, of the next $5.
func browseBatches(all bool) string {
	return `SELECT ` + batchColumns + ` FROM (SELECT *` + listed(all) + ` LIMIT $5) b` + batchParts + `
WHERE ($7 = '' OR starts_with(b.name, $7)) AND ($8::jsonb IS NULL OR coalesce(b.labels::jsonb, '{}') @> $8::jsonb)
	AND ($9::boolean IS NULL OR (c.ended_at IS NULL) = $9)
ORDER BY b.sealed_at DESC, b.id DESC LIMIT $6`
}

// Batches implements store.Reader.
func (s *Reader) Batches(ctx context.Context, tenant string, before job.ID, limit int) ([]job.Batch, error) {
	page, err := s.BrowseBatches(ctx, tenant, store.BatchQuery{Before: before, Limit: limit})
	return page.Batches, err
}

// BrowseBatches implements store.Browser.
func (s *Reader) BrowseBatches(ctx context.Context, tenant string, q store.BatchQuery) (page store.BatchPage, err error) {
	look := q.Limit
	if q.NamePrefix != "" || len(q.Labels) > 0 || q.Open != nil {
		look = max(look, batchesLook)
	}
	err = s.db.Do(ctx, "list batches", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		sealed, before, err := s.listedAt(ctx, t, q.Before)
		if err != nil {
			return err
		}
		args := []any{t, sealed, before, sealedSince(q.Since), look}
		rows, err := s.db.Pool.Query(ctx, browseBatches(t == 0), append(args, q.Limit, q.NamePrefix, pg.LabelsText(q.Labels), q.Open)...)
		if err != nil {
			return err
		}
		if page.Batches, err = pgx.CollectRows(rows, scanBatch); err != nil {
			return err
		}
		if page.Next = ""; len(page.Batches) == q.Limit {
			page.Next = page.Batches[q.Limit-1].ID
			return nil
		}
		var last pgtype.UUID // the last batch of this look; the next page begins behind it
		args[4] = look - 1
		err = s.db.Pool.QueryRow(ctx, `SELECT b.id`+listed(t == 0)+` OFFSET $5 LIMIT 1`, args...).Scan(&last)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		page.Next = pg.JobID(last)
		return err
	})
	if err != nil && q.Before != "" {
		err = s.db.TranslateNotFound(ctx, q.Before, err)
	}
	return page, err
}

// sealedSince is -infinity for ever.
func sealedSince(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

// listedAt returns where in the list a batch is; before all of them without one.
func (s *Reader) listedAt(ctx context.Context, tenant int32, before job.ID) (sealed pgtype.Timestamptz, id pgtype.UUID, err error) {
	if before == "" {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, pg.UUID(pg.LastID), nil
	}
	id = pg.UUID(before)
	err = s.db.Pool.QueryRow(ctx, `SELECT sealed_at FROM batches WHERE id = $2 AND sealed_at IS NOT NULL AND (tenant_id = $1 OR $1::integer = 0)`,
		tenant, id).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: batch %s", job.ErrNotFound, before)
	}
	return sealed, id, err
}

const batchStates = `
SELECT b.id, c.total, c.recorded, c.succeeded, c.canceled, c.ended_at
FROM unnest($2::uuid[]) WITH ORDINALITY AS i (id, n) JOIN batches b ON b.id = i.id JOIN batch_counts c ON c.batch_id = b.id
WHERE coalesce(b.sealed_at, 'infinity') < 'infinity' AND ($1::integer = 0 OR b.tenant_id = $1) ORDER BY i.n`

// BatchStates implements store.Browser.
func (s *Reader) BatchStates(ctx context.Context, tenant string, batches []job.ID) (out []store.BatchState, err error) {
	err = s.db.Do(ctx, "states of batches", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, batchStates, t, pg.UUIDs(batches[:min(len(batches), store.MaxStates)]))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b store.BatchState, err error) {
			var id pgtype.UUID
			var ended *time.Time
			err = row.Scan(&id, &b.Total, &b.Recorded, &b.Succeeded, &b.Canceled, &ended)
			b.ID, b.EndedAt, b.Done = pg.JobID(id), pg.OrZero(ended), ended != nil
			return b, err
		})
		return err
	})
	return out, err
}
