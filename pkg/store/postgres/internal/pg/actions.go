package pg

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
)

const insertAction = `
INSERT INTO operator_actions (id, actor, token, action, subject, reason, detail, outcome)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8) RETURNING at`

// Act does f and writes down what came of it, both or neither. f reports whether anything
// changed, and may fill in the detail.
func (db *DB) Act(ctx context.Context, a *store.Action, f func(ctx context.Context, tx pgx.Tx) (changed bool, err error)) error {
	return db.Do(ctx, a.Action, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
			changed, err := f(ctx, tx)
			if err != nil {
				return err
			}
			if a.Outcome = store.ActionUnchanged; changed {
				a.Outcome = store.ActionDone
			}
			return WriteAction(ctx, tx, a)
		})
	})
}

// WriteAction writes an action down, and when that was into a.
func WriteAction(ctx context.Context, tx pgx.Tx, a *store.Action) error {
	return tx.QueryRow(ctx, insertAction, UUID(a.ID), CleanText(a.Actor), a.Token, a.Action, CleanText(a.Subject), CleanText(a.Reason),
		TextOrNull(a.Detail), string(a.Outcome)).Scan(&a.At)
}

// Detail puts v into an action.
func Detail(a *store.Action, v any) error {
	raw, err := json.Marshal(v)
	a.Detail = raw
	return err
}
