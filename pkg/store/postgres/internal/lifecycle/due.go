package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// dueEnd is a statement of the reaper that ends jobs or attempts, some at a time. Its last two
// arguments are LIMIT and OFFSET.
type dueEnd struct {
	op      string
	sql     string
	args    []any
	due     string // finds and locks the rows that sql ends; the first column is the id
	dueArgs []any

	// A refused row is ended with this outcome and message.
	outcome job.Outcome
	message string
	running bool // the rows run, and only the attempt of that moment is ended
}

// endDue ends all that is due until a time, and calls each for every row that it moves. A row
// that PostgreSQL refuses is set aside.
func (s *Transitions) endDue(ctx context.Context, d dueEnd, size int, until time.Time, each func(recordedRow)) error {
	return pg.Chunks(size, until, func(c pg.Chunk) (int, error) {
		var rows []recordedRow
		err := s.db.Urgent(ctx, d.op, func(ctx context.Context) (err error) {
			rows, err = s.record(ctx, d.sql, append(d.args[:len(d.args):len(d.args)], c.Limit, c.Offset)...)
			return err
		})
		for _, e := range rows {
			each(e)
		}
		return len(rows), err
	}, func(c pg.Chunk, cause error) (bool, error) {
		rows, err := s.asideAt(ctx, d, c, cause)
		for _, e := range rows {
			each(e)
		}
		return true, err
	})
}

// limited is LIMIT and OFFSET as the arguments $n and $n+1.
func limited(n int) string { return fmt.Sprintf(` LIMIT $%d::bigint OFFSET $%d::bigint`, n, n+1) }

// refusedEnd is the message of a job that was ended because its attempt could not be taken back.
const refusedEnd = `given up: the database refuses to take its attempt back`
