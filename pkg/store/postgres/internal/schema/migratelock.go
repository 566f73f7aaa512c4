package schema

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"

	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// migrateAgain is the delay before the lock of migrations is tried again; sayAgain is the interval of log messages
// while another process has it.
const (
	migrateAgain = time.Second
	sayAgain     = 30 * time.Second
)

// migrationLock is the lock of migrations, which all releases share: an advisory lock of the session, so it ends with
// its holder.
type migrationLock struct{ lock.SessionLocker }

func newMigrationLock() (lock.SessionLocker, error) {
	l, err := lock.NewPostgresSessionLocker()
	return migrationLock{l}, err
}

// SessionLock waits for the lock until ctx ends: a migration may take long. It logs that it waits.
func (migrationLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var said time.Time
	for began := time.Now(); ; {
		var locked bool
		if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", lock.DefaultLockID).Scan(&locked); err != nil || locked {
			return err
		}
		if time.Since(said) >= sayAgain {
			slog.InfoContext(ctx, "another process migrates the schema, waiting for it", "waited", time.Since(began).Round(time.Second))
			said = time.Now()
		}
		if !waitMore(ctx, migrateAgain) {
			return fmt.Errorf("wait for another process to migrate the schema: %w", ctx.Err())
		}
	}
}

// migrating reports whether a process has that lock.
func migrating(ctx context.Context, conn *pgx.Conn) (is bool, err error) {
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32) + objid::bigint = $1)`, lock.DefaultLockID).Scan(&is)
	return is, pg.Translate("look for a migration", err)
}
