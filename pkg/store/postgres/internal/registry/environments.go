package registry

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
)

// stateEnvironment leaves as many of the witness's other statements as it may have.
const stateEnvironment = `
WITH stated AS (
	INSERT INTO environments (name, pool, witness, worker, digest) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (name, pool, witness) DO UPDATE SET worker = EXCLUDED.worker, digest = EXCLUDED.digest, stated_at = now())
DELETE FROM environments WHERE pool = $2 AND witness = $3 AND name IN (
	SELECT name FROM environments WHERE pool = $2 AND witness = $3 AND name <> $1 ORDER BY stated_at DESC, name OFFSET $6)`

// StateEnvironment implements store.Environments.
func (s *Registry) StateEnvironment(ctx context.Context, e store.EnvironmentStatement) error {
	if err := e.Check(); err != nil {
		return err
	}
	return s.db.Do(ctx, "state environment", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, stateEnvironment, e.Name, e.Pool, e.Witness, e.Worker, e.Digest, store.EnvironmentsMost-1)
		return err
	})
}

const statedEnvironment = `
SELECT digest FROM environments WHERE name = $1 AND pool = $2
GROUP BY digest HAVING count(*) >= $3 ORDER BY max(stated_at) DESC, digest LIMIT 1`

// Environment implements store.Environments.
func (s *Registry) Environment(ctx context.Context, pool, name string, witnesses int) (digest string, err error) {
	if err := store.CheckEnvironmentName(name); err != nil {
		return "", err
	}
	err = s.db.Do(ctx, "environment", func(ctx context.Context) error {
		err := s.db.Pool.QueryRow(ctx, statedEnvironment, name, pool, witnesses).Scan(&digest)
		if errors.Is(err, pgx.ErrNoRows) {
			digest = ""
			return nil
		}
		return err
	})
	return digest, err
}

// ForgetEnvironments implements store.Environments.
func (s *Registry) ForgetEnvironments(ctx context.Context, age time.Duration) (n int64, err error) {
	err = s.db.Do(ctx, "forget environments", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, `DELETE FROM environments WHERE stated_at < now() - $1 * interval '1 millisecond'`, age.Milliseconds())
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
