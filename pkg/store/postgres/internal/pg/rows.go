package pg

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// rowClasses are the classes of SQLSTATE that concern a row: data, constraints, errors from triggers, and unreadable
// rows or index entries. The same statement without that row succeeds.
var rowClasses = map[string]bool{
	"21": true, "22": true, "23": true, "38": true, "39": true, "42": true, "44": true, "54": true, "P0": true, "XX": true,
}

// IsRowError reports whether PostgreSQL refused a statement because of one of its rows. A
// statement that is wrong itself has errors of the same classes: see Apart and Chunks.
func IsRowError(err error) bool { return len(Code(err)) == 5 && rowClasses[Code(err)[:2]] }

// Code returns the SQLSTATE of an error, empty if the server sent none.
func Code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Apart calls do with rows. If PostgreSQL refuses one of them, Apart halves the rows until that
// one is alone, and calls aside with it and the reason; do is called with all others. A statement
// that fails without any row is wrong itself: its error is returned, and no row is set aside.
func Apart[T any](rows []T, do func([]T) error, aside func(T, error) error) error {
	err := do(rows)
	if !IsRowError(err) || len(rows) == 0 {
		return err
	}
	if half := len(rows) / 2; half > 0 {
		return errors.Join(Apart(rows[:half], do, aside), Apart(rows[half:], do, aside))
	}
	if wrong := do(nil); wrong != nil {
		return wrong
	}
	return aside(rows[0], err)
}

// Chunk is the LIMIT and OFFSET of one statement of Chunks.
type Chunk struct{ Limit, Offset int }

// Chunks calls do until it finds fewer rows than its limit, at most size, or until a time (zero: none). do changes the
// rows that it finds, so that the next call does not find them again, and returns their number.
//
// If PostgreSQL refuses a row, Chunks halves the limit until that row is alone, and calls refused with the place of the
// row and the reason. refused reports whether the row is out of the way; if not, Chunks passes over it. If a statement
// fails without any row, the statement itself is wrong, and Chunks returns its error.
func Chunks(size int, until time.Time, do func(Chunk) (int, error), refused func(Chunk, error) (bool, error)) error {
	for c := (Chunk{Limit: size}); ; {
		n, err := do(c)
		switch {
		case err == nil && n < c.Limit, err != nil && !IsRowError(err):
			return err
		case err == nil:
			c.Limit = min(2*c.Limit, size)
		case c.Limit > 1:
			c.Limit /= 2
			continue
		default:
			if _, wrong := do(Chunk{Offset: c.Offset}); wrong != nil {
				return wrong
			}
			gone, err := refused(c, err)
			if err != nil {
				return err
			}
			if !gone {
				c.Offset++
			}
			c.Limit = size
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return nil
		}
	}
}

// Refused logs and counts a row that PostgreSQL refuses in a statement of upkeep. It is for
// Chunks: the row stays where it is, and is passed over. The log has one line a minute for each
// statement.
func (db *DB) Refused(ctx context.Context, op string, cause error) (gone bool, err error) {
	db.calls.refused(ctx, op)
	now := time.Now()
	if last, logged := db.refusals.Load(op); !logged || now.Sub(last.(time.Time)) > time.Minute {
		db.refusals.Store(op, now)
		slog.ErrorContext(ctx, "row rejected by PostgreSQL; skipped", "call", op, "sqlstate", Code(cause), "error", cause)
	}
	return false, nil
}

// CountSetAside counts a row that was set aside.
func (db *DB) CountSetAside(ctx context.Context, op string) { db.calls.refused(ctx, op) }

// refused counts a refused row of a call.
func (c *calls) refused(ctx context.Context, name string) {
	c.rows.Add(ctx, 1, metric.WithAttributes(attribute.String("call", name)))
}
