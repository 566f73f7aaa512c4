package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const lead = `
INSERT INTO leaders AS l (role, holder, term, until) VALUES ($1, $2, 1, now() + $3 * interval '1 millisecond')
ON CONFLICT (role) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until,
	term = l.term + (l.holder <> EXCLUDED.holder)::integer
WHERE l.holder = EXCLUDED.holder OR l.until <= now()
RETURNING term`

// Lead implements store.Leaders.
func (s *Store) Lead(ctx context.Context, role, holder string, ttl time.Duration) (term int64, err error) {
	err = s.urgent(ctx, "lead", func(ctx context.Context) error {
		err := s.pool.QueryRow(ctx, lead, role, holder, ttl.Milliseconds()).Scan(&term)
		if errors.Is(err, pgx.ErrNoRows) {
			term = 0
			return nil
		}
		return err
	})
	return term, err
}

// Resign implements store.Leaders.
func (s *Store) Resign(ctx context.Context, role, holder string) error {
	return s.urgent(ctx, "resign", func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `UPDATE leaders SET until = now() WHERE role = $1 AND holder = $2`, role, holder)
		return err
	})
}
