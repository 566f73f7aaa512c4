package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Bounds of one page, which is in memory as a whole.
const (
	pageRows  = 500
	pageBytes = 8 << 20 // and one row
	scanIDs   = 5000    // of all tenants
)

// unfinished counts the work that Waiting does not count: single jobs with workers, live sessions, and callbacks.
const unfinished = `
SELECT (SELECT count(*) FROM live_jobs WHERE tenant_id = $1 AND state = 'dispatched' AND batch_id = '00000000-0000-0000-0000-000000000000')
	+ (SELECT count(*) FROM live_jobs WHERE tenant_id = $1 AND state = 'running' AND batch_id = '00000000-0000-0000-0000-000000000000'),
	(SELECT count(*) FROM sessions WHERE tenant_id = $1 AND state = 'live'),
	(SELECT count(*) FROM callbacks WHERE tenant_id = $1 AND delivered_at IS NULL AND given_up_at IS NULL)`

// Unfinished implements store.Transfers.
func (m *Mover) Unfinished(ctx context.Context, tenant string) (u store.Unfinished, err error) {
	t, err := m.tenantID(ctx, tenant)
	if err != nil {
		return u, err
	}
	queued, batches, err := m.waiting.Waiting(ctx, tenant)
	if err != nil {
		return u, err
	}
	err = m.db.Do(ctx, "count unfinished work", func(ctx context.Context) error {
		return m.db.Pool.QueryRow(ctx, unfinished, t).Scan(&u.Jobs, &u.Sessions, &u.Callbacks)
	})
	u.Jobs, u.Batches = u.Jobs+queued, batches
	return u, err
}

// tenantID returns the number of a tenant, or job.ErrNotFound.
func (m *Mover) tenantID(ctx context.Context, tenant string) (t int32, err error) {
	err = m.db.Do(ctx, "tenant", func(ctx context.Context) error {
		if t, err = m.db.LookupTenant(ctx, tenant); err == nil && t <= 0 {
			err = fmt.Errorf("%w: tenant %.80q", job.ErrNotFound, tenant)
		}
		return err
	})
	return t, err
}

// export is one export of a tenant.
type export struct {
	*Mover
	tenant int32
	cut    job.ID            // ids from here on are work that began after the export
	of     map[string]string // columns by table
	row    func(table string, raw []byte) error
}

// ExportTenant implements store.Transfers. It visits the tables one after another. Finished work does not change, so the
// pages fit together as long as the tenant has no other work, which it checks by every id and again at the end.
func (m *Mover) ExportTenant(ctx context.Context, tenant string, row func(table string, raw []byte) error) error {
	t, err := m.tenantID(ctx, tenant)
	if err != nil {
		return err
	}
	x := &export{m, t, job.FirstIDAt(time.Now()), map[string]string{}, row}
	for _, tb := range tenantTables {
		if err := x.all(ctx, tb, nil, x.tenant); err != nil {
			return err
		}
	}
	if err := m.history(ctx, t, x.refuse, func(days pg.Days, ids []pgtype.UUID) error { return x.jobs(ctx, days, ids) }); err != nil {
		return err
	}
	if err := x.checkNew(ctx); err != nil {
		return err
	}
	return x.all(ctx, keyTable, nil, x.tenant)
}

// all passes on the rows of a table that are in a scope, page by page.
func (x *export) all(ctx context.Context, tb table, days *pg.Days, scope any) error {
	columns, known := x.of[tb.name]
	if !known {
		if err := x.db.Do(ctx, "columns", func(ctx context.Context) (err error) {
			columns, err = x.columns(ctx, x.db.Pool, tb.name)
			return err
		}); err != nil {
			return err
		}
		x.of[tb.name] = columns
	}
	sql, after := tb.page(columns, days)
	for {
		page, more, err := x.page(ctx, sql, scope, after)
		if err != nil {
			return fmt.Errorf("export %s: %w", tb.name, err)
		}
		for _, raw := range page {
			if err := x.row(tb.name, raw); err != nil {
				return err
			}
		}
		if len(tb.of) > 0 && len(page) > 0 {
			if err := x.children(ctx, tb, page); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		after = string(page[len(page)-1])
	}
}

// children passes on the rows that belong to the rows of a page.
func (x *export) children(ctx context.Context, tb table, page [][]byte) error {
	var ids []pgtype.UUID
	for _, raw := range page {
		var r struct{ ID job.ID }
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("export %s: %w", tb.name, err)
		}
		ids = append(ids, pg.UUID(r.ID))
	}
	for _, child := range tb.of {
		if err := x.all(ctx, child, nil, ids); err != nil {
			return err
		}
	}
	return nil
}

// page reads the rows of one page. more reports whether rows may follow.
func (x *export) page(ctx context.Context, sql string, scope any, after string) (page [][]byte, more bool, err error) {
	err = x.db.Do(ctx, "export", func(ctx context.Context) error {
		page, more = nil, false
		rows, err := x.db.Pool.Query(ctx, sql, scope, after)
		if err != nil {
			return err
		}
		defer rows.Close()
		for bytes := 0; rows.Next(); {
			var raw []byte
			if err := rows.Scan(&raw); err != nil {
				return err
			}
			page = append(page, raw)
			if bytes += len(raw); bytes >= pageBytes || len(page) == pageRows {
				more = true
				return nil
			}
		}
		return rows.Err()
	})
	return page, more, err
}

// scan looks at the next jobs of all tenants by their ids. No index has all jobs of a tenant.
func scan(days pg.Days) string {
	return fmt.Sprintf(`SELECT id, tenant_id = $1, outcome IS NOT NULL FROM jobs WHERE id > $2 AND %s ORDER BY id LIMIT %d`, days.In("id"), scanIDs)
}

// history calls do with the ids of a tenant's jobs, the oldest days first, some of one window at a time. refuse is called with
// each id before.
func (m *Mover) history(ctx context.Context, tenant int32, refuse func(id job.ID, isOver bool) error, do func(days pg.Days, ids []pgtype.UUID) error) error {
	var windows []pg.Days
	if err := m.db.Do(ctx, "days", func(ctx context.Context) (err error) {
		windows, err = m.db.Windows(ctx, pg.NilID, pg.LastID)
		return err
	}); err != nil {
		return err
	}
	slices.Reverse(windows)
	for _, days := range windows {
		for after := pg.NilID; after != ""; {
			own, last, err := m.nextJobs(ctx, tenant, days, after, refuse)
			if err != nil {
				return err
			}
			for some := range slices.Chunk(own, pageRows) {
				if err := do(days, some); err != nil {
					return err
				}
			}
			after = last
		}
	}
	return nil
}

// nextJobs returns a tenant's jobs among the next ones after an id, and the last id of these, empty at the end.
func (m *Mover) nextJobs(ctx context.Context, tenant int32, days pg.Days, after job.ID, refuse func(id job.ID, isOver bool) error) (own []pgtype.UUID, last job.ID, err error) {
	err = m.db.Do(ctx, "jobs of a tenant", func(ctx context.Context) error {
		own, last = nil, ""
		rows, err := m.db.Pool.Query(ctx, scan(days), tenant, pg.UUID(after))
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			var id pgtype.UUID
			var isOwn, isOver bool
			if err := rows.Scan(&id, &isOwn, &isOver); err != nil {
				return err
			}
			if n++; n == scanIDs {
				last = pg.JobID(id)
			}
			if !isOwn {
				continue
			}
			if err := refuse(pg.JobID(id), isOver); err != nil {
				return err
			}
			own = append(own, id)
		}
		return rows.Err()
	})
	return own, last, err
}

// refuse returns job.ErrConflict for a job that the export cannot have as a whole.
func (x *export) refuse(id job.ID, isOver bool) error {
	if isOver && id < x.cut {
		return nil
	}
	return fmt.Errorf("%w: job %s began after the export, or is not over; stop the tenant's submissions and export again", job.ErrConflict, id)
}

// jobs passes on jobs with their rows.
func (x *export) jobs(ctx context.Context, days pg.Days, ids []pgtype.UUID) error {
	for _, tb := range jobTables {
		if err := x.all(ctx, tb, &days, ids); err != nil {
			return err
		}
	}
	return nil
}

// newWork finds batches and sessions that are not over, or began after the cut $2.
const newWork = `
SELECT EXISTS (SELECT FROM batches WHERE tenant_id = $1 AND sealed_at IS NOT NULL AND id >= $2)
	OR EXISTS (SELECT FROM batches WHERE tenant_id = $1 AND sealed_at IS NULL AND dropped_at IS NULL)
	OR EXISTS (SELECT FROM sessions WHERE tenant_id = $1 AND id >= $2)
	OR EXISTS (SELECT FROM sessions WHERE tenant_id = $1 AND state = 'live')`

// checkNew returns job.ErrConflict if the tenant has batches or sessions that the export may lack.
func (x *export) checkNew(ctx context.Context) error {
	return x.db.Do(ctx, "look for new work", func(ctx context.Context) error {
		var found bool
		err := x.db.Pool.QueryRow(ctx, newWork, x.tenant, pg.UUID(x.cut)).Scan(&found)
		if err == nil && found {
			err = fmt.Errorf("%w: the tenant began a batch or a session after the export; stop its submissions and export again", job.ErrConflict)
		}
		return err
	})
}
