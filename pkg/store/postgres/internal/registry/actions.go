package registry

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const actionColumns = `id, seq, at, actor, token, remote, action, subject, tenant, reason, detail, before, after, outcome`

func scanAction(row pgx.CollectableRow) (store.Action, error) {
	var a store.Action
	var id pgtype.UUID
	err := row.Scan(&id, &a.Seq, &a.At, &a.Actor, &a.Token, &a.Remote, &a.Action, &a.Subject, &a.Tenant, &a.Reason,
		(*[]byte)(&a.Detail), (*[]byte)(&a.Before), (*[]byte)(&a.After), &a.Outcome)
	a.ID = pg.JobID(id)
	return a, err
}

// conditions are the conditions of a query, with their values. Only the requested ones are written, so that each
// combination uses its own index.
type conditions struct {
	sql  []string
	args []any
}

// add adds a condition; %s in its SQL is its value.
func (c *conditions) add(sql string, value any) {
	c.args = append(c.args, value)
	c.sql = append(c.sql, fmt.Sprintf(sql, fmt.Sprintf("$%d", len(c.args))))
}

func (c *conditions) of(q store.ActionQuery) {
	for column, value := range map[string]string{"actor": q.Actor, "action": q.Action, "subject": q.Subject, "tenant": q.Tenant} {
		if value != "" {
			c.add(column+" = %s", value)
		}
	}
	if !q.Since.IsZero() {
		c.add("at >= %s", q.Since)
	}
	if !q.Until.IsZero() {
		c.add("at < %s", q.Until)
	}
}

// Actions implements store.Operations.
func (s *Registry) Actions(ctx context.Context, q store.ActionQuery) ([]store.Action, error) {
	var c conditions
	c.add("id < %s", pg.UUID(cmp.Or(q.Before, pg.LastID)))
	return s.actions(ctx, c, q, "id DESC")
}

// ActionsAfter implements store.Operations.
func (s *Registry) ActionsAfter(ctx context.Context, seq int64, q store.ActionQuery) ([]store.Action, error) {
	var c conditions
	c.add("seq > %s", seq)
	return s.actions(ctx, c, q, "seq")
}

func (s *Registry) actions(ctx context.Context, c conditions, q store.ActionQuery, order string) (as []store.Action, err error) {
	c.of(q)
	sql := fmt.Sprintf(`SELECT %s FROM operator_actions WHERE %s ORDER BY %s LIMIT %d`, actionColumns, strings.Join(c.sql, " AND "), order, max(q.Limit, 1))
	err = s.db.Do(ctx, "actions", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, sql, c.args...)
		if err != nil {
			return err
		}
		as, err = pgx.CollectRows(rows, scanAction)
		return err
	})
	return as, err
}

// ActionsSeq implements store.Operations.
func (s *Registry) ActionsSeq(ctx context.Context) (seq int64, err error) {
	err = s.db.Do(ctx, "last action", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM operator_actions`).Scan(&seq)
	})
	return seq, err
}

// ForgetActions implements store.Operations.
func (s *Registry) ForgetActions(ctx context.Context, age time.Duration) (n int64, err error) {
	err = s.db.Do(ctx, "forget actions", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, `DELETE FROM operator_actions WHERE at < now() - $1 * interval '1 millisecond'`, age.Milliseconds())
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
