package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/assay-run/assay/migrations"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// versionTable has a row for each migration that was made.
const versionTable = "schema_versions"

// Migrate brings the schema up to date and makes the partitions of the next days. Several processes may call it at
// once: with an advisory lock one works, and the others wait and log that they wait. It is safe to kill: each migration
// is a transaction.
//
// Only ctx limits its time, and ctx should have no deadline: a migration of a large table takes long, and an
// interrupted one starts over. The error wraps ErrRole if the role of dsn has no right to change the schema.
func Migrate(ctx context.Context, dsn string) error {
	err := withProvider(ctx, dsn, func(p *goose.Provider, db *sql.DB) error {
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			_, err := p.Up(ctx)
			if err == nil {
				err = makePartitions(ctx, db)
			}
			return struct{}{}, permanentUnlessLocked(err)
		}, backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
			slog.WarnContext(ctx, "table of a migration in use; retrying", "error", err, "after", wait)
		}))
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == pg.InsufficientPrivilege {
		return fmt.Errorf("%w: %w", ErrRole, err)
	}
	return err
}

// ErrRole means that a role of the database may not change its schema.
var ErrRole = errors.New("this role may not change the schema")

// makePartitions does the work of Maintain, under the same lock: dispatchers may start at the same time, or while
// another one maintains.
func makePartitions(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, maintainLock); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT assay_partitions("+maintainFrom+", $1)", maintainDays); err != nil {
		return err
	}
	return tx.Commit()
}

// Schema is how far a database has come.
type Schema struct {
	Has   int64 // the version that it has, 0: none
	Wants int64 // the version that this program is made for
	// Migrating means that a process is migrating the schema.
	Migrating bool
}

// Current reports whether this program can work with the schema. A newer schema is current, too: migrations only add
// objects that older programs do not need, and remove objects that no running release uses.
func (s Schema) Current() bool { return s.Has >= s.Wants }

// ReadSchema reads the version of a database's schema.
func ReadSchema(ctx context.Context, dsn string) (s Schema, err error) {
	if s.Wants, err = wantedSchema(); err != nil {
		return s, err
	}
	cfg, err := pg.ParseConn(dsn)
	if err != nil {
		return s, err
	}
	conn, err := pgx.ConnectConfig(ctx, pg.TakesWrites(cfg))
	if err != nil {
		return s, pg.Translate("connect", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, schemaVersion).Scan(&s.Has)
	var refused *pgconn.PgError
	if err != nil && (!errors.As(err, &refused) || refused.Code != pg.UndefinedTable) {
		return s, pg.Translate("read the schema's version", err)
	}
	s.Migrating, err = migrating(ctx, conn)
	return s, err
}

const schemaVersion = "SELECT coalesce(max(version_id), 0) FROM " + versionTable + " WHERE is_applied"

// wantedSchema is the version that this program is made for.
func wantedSchema() (wants int64, err error) {
	ms, err := readMigrations(migrations.Files)
	for _, m := range ms {
		wants = max(wants, m.Version)
	}
	return wants, err
}

// AwaitSchema returns once another process has made the schema current. It gives up when no process has been migrating
// for as long as patience, or when ctx ends.
func AwaitSchema(ctx context.Context, dsn string, patience time.Duration) error {
	var said time.Time
	for idle := time.Now(); ; {
		s, err := ReadSchema(ctx, dsn)
		switch {
		case err == nil && s.Current():
			return nil
		case err != nil && !errors.Is(err, job.ErrUnavailable):
			return err
		case s.Migrating:
			idle = time.Now()
		}
		if time.Since(said) >= sayAgain {
			slog.InfoContext(ctx, "waiting for another process to bring the schema up to date", "has", s.Has, "needs", s.Wants, "migrating", s.Migrating, "error", err)
			said = time.Now()
		}
		if waitMore(ctx, pg.ReachPause) && time.Since(idle) < patience {
			continue
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: the schema has version %d, and this program needs %d: run \"dispatcher migrate\" with the URL of a role that may change the schema", job.ErrUnavailable, s.Has, s.Wants)
	}
}

// waitMore waits for d. It reports false if ctx has ended before.
func waitMore(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// DownTo undoes migrations above version; for tests and operators.
func DownTo(ctx context.Context, dsn string, version int64) error {
	return withProvider(ctx, dsn, func(p *goose.Provider, _ *sql.DB) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
}

func withProvider(ctx context.Context, dsn string, f func(*goose.Provider, *sql.DB) error) error {
	cfg, err := pg.ParseConn(dsn)
	if err != nil {
		return err
	}
	if err := pg.CheckSessions(ctx, cfg); err != nil {
		return err
	}
	db := stdlib.OpenDB(*pg.TakesWrites(cfg))
	defer db.Close()
	ms, err := readMigrations(migrations.Files)
	if err != nil {
		return err
	}
	locker, err := newMigrationLock()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithGoMigrations(ms...),
		goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker), goose.WithTableName(versionTable))
	if err != nil {
		return err
	}
	return pg.Translate("migrate", f(p, db))
}

// readMigrations pairs NNNN_name.up.sql with NNNN_name.down.sql.
func readMigrations(files fs.FS) ([]*goose.Migration, error) {
	ups, err := fs.Glob(files, "*.up.sql")
	if err != nil {
		return nil, err
	}
	var ms []*goose.Migration
	for _, name := range ups {
		base := strings.TrimSuffix(name, ".up.sql")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s: its name must begin with a number: %w", name, err)
		}
		up, err := migrationStep(files, name)
		if err != nil {
			return nil, err
		}
		down, err := migrationStep(files, base+".down.sql")
		if err != nil {
			return nil, err
		}
		ms = append(ms, goose.NewGoMigration(version, up, down))
	}
	return ms, nil
}

// migrationStep runs a file as it is. lock_timeout bounds how long a busy table
// can make others queue up behind the migration.
func migrationStep(files fs.FS, name string) (*goose.GoFunc, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	if strings.HasPrefix(string(text), "-- no transaction\n") {
		return &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, string(text))
			return err
		}}, nil
	}
	return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '3s';\n"+string(text))
		return err
	}}, nil
}

// permanentUnlessLocked has a step tried again that gave way to a fleet at work: it waited too long for a table, or it and a
// statement waited for each other. Its transaction is undone.
func permanentUnlessLocked(err error) error {
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) && (refused.Code == pg.LockNotAvailable || refused.Code == pg.DeadlockDetected) {
		return err
	}
	return backoff.Permanent(err)
}

// Schema implements store.Operations.
func (s *Tables) Schema(ctx context.Context) (v store.Schema, err error) {
	if v.Wants, err = wantedSchema(); err != nil {
		return v, err
	}
	err = s.db.Do(ctx, "schema", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, schemaVersion).Scan(&v.Has)
	})
	return v, err
}
