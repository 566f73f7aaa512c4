package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// hiddenName returns the name of a tenant until its import is finished. No client can have it: names of tenants have no colon.
func hiddenName(id job.ID) string { return "import:" + string(id) }

// BeginImport implements store.Transfers.
func (m *Mover) BeginImport(ctx context.Context, i store.Import) (now store.Import, err error) {
	if err := m.discard(ctx, i); err != nil {
		return i, err
	}
	err = m.db.Act(ctx, nil, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		now = i
		err := tx.QueryRow(ctx, `SELECT rows, finished_at FROM imports WHERE id = $1 AND tenant = $2`, pg.UUID(i.ID), i.Tenant).Scan(&now.Rows, &now.Finished)
		if !errors.Is(err, pgx.ErrNoRows) {
			return false, err
		}
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM tenants WHERE name = $1)`, i.Tenant).Scan(&exists); err != nil {
			return false, err
		}
		if exists {
			return false, tenantExists(i.Tenant)
		}
		_, err = tx.Exec(ctx, `WITH t AS (INSERT INTO tenants (name) VALUES ($4) RETURNING id)
			INSERT INTO imports (id, fleet, tenant, tenant_id) SELECT $1, $2, $3, id FROM t`, pg.UUID(i.ID), pg.CleanText(i.Fleet), i.Tenant, hiddenName(i.ID))
		return true, err
	})
	return now, err
}

func tenantExists(name string) error {
	return fmt.Errorf("%w: tenant %.80q exists in this fleet; import it before its first request and before it is in the tenants file", job.ErrConflict, name)
}

// ImportRows implements store.Transfers.
func (m *Mover) ImportRows(ctx context.Context, id job.ID, after int64, name string, rows []json.RawMessage) error {
	tb, isOfJobs, err := find(name)
	if err != nil {
		return err
	}
	if isOfJobs {
		if err := m.makeDays(ctx, tb, rows); err != nil {
			return err
		}
	}
	return m.db.Do(ctx, "import rows", func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, m.db.Pool, func(tx pgx.Tx) error {
			var tenant int32
			err := tx.QueryRow(ctx, `UPDATE imports SET rows = rows + $3 WHERE id = $1 AND rows = $2 AND finished_at IS NULL AND tenant <> '' RETURNING tenant_id`,
				pg.UUID(id), after, len(rows)).Scan(&tenant)
			if errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("%w: another process imports %s at the same time; import again when it is over", job.ErrConflict, id)
			}
			if err != nil {
				return err
			}
			return rowError(name, m.insert(ctx, tx, tb, tenant, rows))
		})
	})
}

// insert adds rows to a table under the number of a tenant. The row of the tenant itself changes the hidden tenant.
func (m *Mover) insert(ctx context.Context, tx pgx.Tx, tb table, tenant int32, rows []json.RawMessage) error {
	if len(rows) == 0 {
		return nil
	}
	columns, err := m.columns(ctx, tx, tb.name)
	if err != nil {
		return err
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("%w: %w", job.ErrInvalid, err)
	}
	from := ` FROM json_populate_recordset(NULL::` + tb.name + `, $1::text::json)`
	switch {
	case tb.name == "tenants":
		_, err = tx.Exec(ctx, `UPDATE tenants SET (`+columns+`) = (SELECT `+columns+from+`) WHERE id = $2`, string(list), tenant)
	case tb.hasTenant:
		_, err = tx.Exec(ctx, `INSERT INTO `+tb.name+` (tenant_id, `+columns+`) SELECT $2, `+columns+from, string(list), tenant)
	default:
		_, err = tx.Exec(ctx, `INSERT INTO `+tb.name+` (`+columns+`) SELECT `+columns+from, string(list))
	}
	return err
}

// rowError names the row that the database refused, and its table.
func rowError(table string, err error) error {
	var e *pgconn.PgError
	switch {
	case err == nil, !pg.IsRowError(err) || !errors.As(err, &e):
		return err
	case e.ConstraintName == "keys_hash_key":
		return fmt.Errorf("%w: a key of the tenant exists in this fleet", job.ErrConflict)
	case pg.IsUniqueViolation(err):
		return fmt.Errorf("%w: %s: %s", job.ErrConflict, table, e.Detail) // such as: Key (id)=(…) already exists.
	}
	return fmt.Errorf("%w: %s: %w", job.ErrInvalid, table, err)
}

// makeDays makes the partitions for rows of history, which may be older than those of this fleet. Rows of days ahead, by
// a wrong clock, go to the default partition. It returns job.ErrInvalid for jobs that are not over.
func (m *Mover) makeDays(ctx context.Context, tb table, rows []json.RawMessage) error {
	made := map[time.Time]bool{}
	for _, raw := range rows {
		var r struct {
			ID      job.ID  `json:"id"`
			JobID   job.ID  `json:"job_id"`
			Outcome *string `json:"outcome"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("%w: %s: %w", job.ErrInvalid, tb.name, err)
		}
		if tb.name == "attempts" {
			r.ID = r.JobID
		}
		day := r.ID.Time().UTC().Truncate(24 * time.Hour)
		switch {
		case r.ID.Time().IsZero():
			return fmt.Errorf("%w: %s: a row has no id", job.ErrInvalid, tb.name)
		case tb.name == "jobs" && r.Outcome == nil:
			return fmt.Errorf("%w: job %s is not over", job.ErrInvalid, r.ID)
		case made[day] || day.After(time.Now().AddDate(0, 0, 1)):
			continue
		}
		if err := m.days.MakeDay(ctx, day); err != nil {
			return err
		}
		made[day] = true
	}
	return nil
}

// FinishImport implements store.Transfers. Clients of the tenant are let in from then on.
func (m *Mover) FinishImport(ctx context.Context, a *store.Action, id job.ID, rows int64, live []json.RawMessage) error {
	defer m.db.News.Settings()
	return m.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if _, err := tx.Exec(ctx, `UPDATE key_changes SET n = n + 1 WHERE one`); err != nil { // the first lock of all who change keys
			return false, err
		}
		var tenant int32
		var name string
		var has int64
		var finished *time.Time
		err := tx.QueryRow(ctx, `SELECT tenant_id, tenant, rows, finished_at FROM imports WHERE id = $1 FOR UPDATE`, pg.UUID(id)).Scan(&tenant, &name, &has, &finished)
		switch {
		case err != nil:
			return false, err
		case finished != nil:
			return false, nil
		case has != rows, name == "":
			return false, fmt.Errorf("%w: import %s has %d rows, not %d; import again", job.ErrConflict, id, has, rows)
		}
		if err := rowError(keyTable.name, m.insert(ctx, tx, keyTable, tenant, live)); err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `UPDATE tenants SET name = $2 WHERE id = $1`, tenant, name)
		if pg.IsUniqueViolation(err) {
			return false, tenantExists(name)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE imports SET finished_at = now(), rows = rows + $2 WHERE id = $1`, pg.UUID(id), len(live))
		}
		return true, err
	})
}
