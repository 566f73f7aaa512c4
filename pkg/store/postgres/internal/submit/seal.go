package submit

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// sealNow gives a batch that this transaction has written the time of its turn (sealLock).
const sealNow = `UPDATE batches SET sealed_at = clock_timestamp() FROM ` + sealLock + ` turn WHERE id = $1 AND tenant_id = $2`

// writeSealed executes a statement that writes a whole batch, and seals the batch. It reports whether the statement wrote one.
func (s *Submitter) writeSealed(ctx context.Context, tenant int32, batch job.ID, sql string, args ...any) (written bool, err error) {
	b := &pgx.Batch{} // one round trip and one transaction
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&written) })
	b.Queue(sealNow, pg.UUID(batch), tenant)
	return written, s.db.Pool.SendBatch(ctx, b).Close()
}
