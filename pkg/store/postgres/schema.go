package postgres

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// Schema is how far a database has come.
type Schema = schema.Schema

// Migrate brings the schema up to date and makes the partitions of the next days. Several
// processes may call it at once: one works and the others wait, until ctx ends. The error
// wraps ErrRole if the role of dsn has no right to change the schema.
func Migrate(ctx context.Context, dsn string) error { return schema.Migrate(ctx, dsn) }

// ErrRole means that a role of the database may not change its schema.
var ErrRole = schema.ErrRole

// ReadSchema reads the version of a database's schema.
func ReadSchema(ctx context.Context, dsn string) (Schema, error) { return schema.ReadSchema(ctx, dsn) }

// AwaitSchema returns once another process has made the schema current. It gives up when no process has been migrating
// for as long as patience, or when ctx ends.
func AwaitSchema(ctx context.Context, dsn string, patience time.Duration) error {
	return schema.AwaitSchema(ctx, dsn, patience)
}

// Reach returns once the server answers, as components start in any order. It tries until
// ctx ends, and fails at once with job.ErrInvalid if the DSN cannot be read, or if a
// pooler is in front of the server that gives sessions to others between transactions.
func Reach(ctx context.Context, dsn string) error { return pg.Reach(ctx, dsn) }
