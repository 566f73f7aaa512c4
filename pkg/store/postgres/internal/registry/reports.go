package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
)

const putReport = `
INSERT INTO reports (source, at, body) VALUES ($1, now(), $2)
ON CONFLICT (source) DO UPDATE SET at = EXCLUDED.at, body = EXCLUDED.body`

// reportsKept is how long the report of a dispatcher that is gone is kept.
const reportsKept = time.Hour

// PutReport implements store.Health.
func (s *Registry) PutReport(ctx context.Context, source string, body json.RawMessage) error {
	return s.db.Urgent(ctx, "put report", func(ctx context.Context) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
		b.Queue(putReport, source, string(body))
		b.Queue(`DELETE FROM reports WHERE at < now() - $1 * interval '1 millisecond'`, reportsKept.Milliseconds())
		return s.db.Pool.SendBatch(ctx, b).Close()
	})
}

// Reports implements store.Health.
func (s *Registry) Reports(ctx context.Context, age time.Duration) (all []store.SourceReport, err error) {
	err = s.db.Do(ctx, "reports", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `
			SELECT source, at, (1000 * extract(epoch FROM now() - at))::bigint, body FROM reports
			WHERE at > now() - $1 * interval '1 millisecond' ORDER BY source`, age.Milliseconds())
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.SourceReport, err error) {
			var ms int64
			var body string
			err = row.Scan(&r.Source, &r.At, &ms, &body)
			r.Age, r.Body = time.Duration(ms)*time.Millisecond, json.RawMessage(body)
			return r, err
		})
		return err
	})
	return all, err
}
