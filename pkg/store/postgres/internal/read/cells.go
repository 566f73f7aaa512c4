package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// mapLook is how many jobs of any tenant, besides four times the requested ones, are searched for a part of a map.
const mapLook = 20_000

// mapPatience is after how long a part of a map goes on in no further window of days.
const mapPatience = 200 * time.Millisecond

// cellsTo is where a look from behind $1 up to $2 ends, if it does not come to $2.
func cellsTo(days pg.Days) string {
	return `SELECT j.id FROM jobs j WHERE j.id > $1 AND j.id < $2 AND ` + days.In("j.id") + ` ORDER BY j.id OFFSET $3 LIMIT 1`
}

func cells(days pg.Days) string {
	return `
SELECT j.id, coalesce(j.outcome, j.state), CASE WHEN j.started_at IS NULL OR j.state IN ('queued', 'dispatched') THEN 0
	ELSE (extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at) * 1000)::bigint END
FROM jobs j WHERE j.id > $1 AND j.id < $2 AND j.batch_id = $3 AND ` + days.In("j.id") + ` ORDER BY j.id LIMIT $4`
}

// named are the jobs of a batch as a comparison sees them.
func named(days pg.Days) string {
	return `
SELECT j.id, coalesce(j.outcome, j.state), left(j.identity, 600)
FROM jobs j WHERE j.id >= $1 AND j.id < $2 AND j.batch_id = $3 AND ` + days.In("j.id") + ` ORDER BY j.id LIMIT $4`
}

// identities are the names and labels of some jobs.
func identities(days pg.Days) string {
	return "SELECT j.id, j.identity FROM jobs j WHERE j.id = ANY($1) AND " + days.In("j.id")
}

// ends maps the states and the outcomes of jobs to cells.
var ends = func() map[string]store.Cell {
	all := map[string]store.Cell{}
	for _, s := range []job.State{job.Queued, job.Dispatched, job.Running} {
		all[string(s)] = store.Cell{State: s}
	}
	for _, o := range job.Outcomes {
		all[string(o)] = store.Cell{State: o.State(), Outcome: o}
	}
	return all
}()

// BatchMap implements store.Browser.
func (s *Reader) BatchMap(ctx context.Context, tenant string, batch, after job.ID, n int) (*store.BatchMap, error) {
	n = min(n, store.MaxMap)
	m := &store.BatchMap{}
	err := s.db.Do(ctx, "map of a batch", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		b, err := s.spanOf(ctx, t, batch)
		if err != nil {
			return err
		}
		windows, err := s.db.Windows(ctx, b.first, b.below)
		if err != nil {
			return err
		}
		*m = store.BatchMap{Cells: make([]store.Cell, 0, min(int64(n), b.total))}
		began := time.Now()
		for i, w := range slices.Backward(windows) {
			first, below := max(after, pg.IDBefore(max(b.first, w.First))), min(b.below, w.Below)
			if after >= below {
				continue
			}
			if err := s.mapWindow(ctx, w, m, batch, first, below, n); err != nil || m.Next != "" {
				return err
			}
			if i > 0 && time.Since(began) > mapPatience {
				m.Next = pg.IDBefore(below)
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.db.TranslateNotFound(ctx, batch, err)
	}
	return m, nil
}

// mapWindow adds the jobs of a batch that are in one window, behind an id. It sets Next if the map goes on behind them there.
func (s *Reader) mapWindow(ctx context.Context, days pg.Days, m *store.BatchMap, batch, after, below job.ID, n int) error {
	end, more, err := s.cellsTo(ctx, days, after, below, 4*n+mapLook)
	if err != nil {
		return err
	}
	rows, err := s.db.Pool.Query(ctx, cells(days), pg.UUID(after), pg.UUID(end), pg.UUID(batch), n-len(m.Cells))
	if err != nil {
		return err
	}
	if err := scanCells(rows, m); err != nil {
		return err
	}
	switch {
	case len(m.Cells) == n:
		m.Next = m.Cells[n-1].ID
	case more:
		m.Next = pg.IDBefore(end) // it may be the id of no job
	}
	return nil
}

func (s *Reader) cellsTo(ctx context.Context, days pg.Days, after, below job.ID, look int) (end job.ID, more bool, err error) {
	var id pgtype.UUID
	err = s.db.Pool.QueryRow(ctx, cellsTo(days), pg.UUID(after), pg.UUID(below), look).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return below, false, nil
	}
	return pg.JobID(id), true, err
}

func scanCells(rows pgx.Rows, m *store.BatchMap) error {
	var id pgtype.UUID
	var end string
	var ms int64
	_, err := pgx.ForEachRow(rows, []any{&id, &end, &ms}, func() error {
		c := ends[end]
		c.ID, c.DurationMS = pg.JobID(id), ms
		m.Cells = append(m.Cells, c)
		return nil
	})
	return err
}

// side is the jobs of one of two batches, in their order.
type side struct {
	ids   []job.ID
	ends  []job.Outcome // empty: it is not over
	names []string
	cut   bool
}

// sideOf reads the first jobs of a batch, store.MaxCompare at most.
func (s *Reader) sideOf(ctx context.Context, tenant int32, batch job.ID) (*side, error) {
	b, err := s.spanOf(ctx, tenant, batch)
	if err != nil {
		return nil, err
	}
	windows, err := s.db.Windows(ctx, b.first, b.below)
	if err != nil {
		return nil, err
	}
	d := &side{cut: b.total > store.MaxCompare}
	for _, w := range slices.Backward(windows) {
		rows, err := s.db.Pool.Query(ctx, named(w), pg.UUID(b.first), pg.UUID(b.below), pg.UUID(batch), store.MaxCompare-len(d.ids))
		if err != nil {
			return nil, err
		}
		var id pgtype.UUID
		var end, identity string
		if _, err := pgx.ForEachRow(rows, []any{&id, &end, &identity}, func() error {
			d.ids = append(d.ids, pg.JobID(id))
			d.ends = append(d.ends, ends[end].Outcome)
			d.names = append(d.names, format.Name(identity))
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// CompareBatches implements store.Browser.
func (s *Reader) CompareBatches(ctx context.Context, tenant string, a, b job.ID, from, n int) (*store.Comparison, error) {
	var c *store.Comparison
	err := s.db.Do(ctx, "compare batches", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		var sides [2]*side
		for i, id := range []job.ID{a, b} {
			if sides[i], err = s.sideOf(ctx, t, id); err != nil {
				return s.db.TranslateNotFound(ctx, id, fmt.Errorf("read batch %s: %w", id, err))
			}
		}
		c = compare(sides[0], sides[1], from, n)
		c.A, c.B = a, b
		if err := s.addLabels(ctx, c.Flips); err != nil {
			return fmt.Errorf("read the labels of jobs: %w", err)
		}
		return nil
	})
	return c, err
}

// addLabels reads the labels of the second jobs of flips.
func (s *Reader) addLabels(ctx context.Context, flips []store.Flip) error {
	if len(flips) == 0 {
		return nil
	}
	at, ids := make(map[job.ID]int, len(flips)), make([]pgtype.UUID, 0, len(flips))
	first, last := flips[0].B, flips[0].B
	for i, f := range flips {
		at[f.B], ids = i, append(ids, pg.UUID(f.B))
		first, last = min(first, f.B), max(last, f.B)
	}
	windows, err := s.db.Windows(ctx, first, pg.IDAfter(last))
	if err != nil {
		return err
	}
	for _, w := range windows {
		rows, err := s.db.Pool.Query(ctx, identities(w), ids)
		if err != nil {
			return err
		}
		var id pgtype.UUID
		var identity string
		if _, err := pgx.ForEachRow(rows, []any{&id, &identity}, func() (err error) {
			_, flips[at[pg.JobID(id)]].Labels, err = whoOf(identity)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
