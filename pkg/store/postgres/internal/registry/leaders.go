package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const lead = `
INSERT INTO leaders AS l (role, holder, term, until) VALUES ($1, $2, 1, now() + $3 * interval '1 millisecond')
ON CONFLICT (role) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until,
	term = l.term + (l.holder <> EXCLUDED.holder)::integer,
	since = CASE WHEN l.holder = EXCLUDED.holder AND l.until > now() THEN l.since ELSE now() END
WHERE l.holder = EXCLUDED.holder OR l.until <= now()
RETURNING term`

// Lead implements store.Leaders.
func (s *Registry) Lead(ctx context.Context, role, holder string, ttl time.Duration) (term int64, err error) {
	err = s.db.Urgent(ctx, "lead", func(ctx context.Context) error {
		err := s.db.Pool.QueryRow(ctx, lead, role, holder, ttl.Milliseconds()).Scan(&term)
		if errors.Is(err, pgx.ErrNoRows) {
			term = 0
			return nil
		}
		return err
	})
	return term, err
}

// Leader implements store.Operations.
func (s *Registry) Leader(ctx context.Context, role string) (l store.Leader, err error) {
	err = s.db.Do(ctx, "leader", func(ctx context.Context) error {
		err := s.db.Pool.QueryRow(ctx, `SELECT holder, term, since, until FROM leaders WHERE role = $1 AND until > now()`, role).
			Scan(&l.Holder, &l.Term, &l.Since, &l.Until)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: no dispatcher leads", job.ErrNotFound)
		}
		return err
	})
	return l, err
}

// Resign implements store.Leaders.
func (s *Registry) Resign(ctx context.Context, role, holder string) error {
	return s.db.Urgent(ctx, "resign", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `UPDATE leaders SET until = now() WHERE role = $1 AND holder = $2`, role, holder)
		return err
	})
}
