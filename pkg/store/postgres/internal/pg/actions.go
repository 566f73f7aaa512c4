package pg

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
)

const insertAction = `
INSERT INTO operator_actions (id, actor, token, action, subject, reason, detail, outcome, tenant, remote, before, after)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9, $10, $11::json, $12::json) RETURNING seq, at`

// inOrder commits actions in the order of their numbers. It is the last lock of a transaction, so its holder waits for
// no other lock.
const inOrder = `SELECT pg_advisory_xact_lock(hashtextextended('assay actions', 0))`

// Act runs f and records the action, both or neither; without an action (nil) it only runs f. f reports whether
// anything changed, and may fill in the detail. If two calls create the same row at once, one runs again.
func (db *DB) Act(ctx context.Context, a *store.Action, f func(ctx context.Context, tx pgx.Tx) (changed bool, err error)) error {
	name := "act"
	if a != nil {
		name = a.Action
	}
	return db.Do(ctx, name, func(ctx context.Context) (err error) {
		for range 10 {
			if err = db.actOnce(ctx, a, f); !IsUniqueViolation(err) {
				return err
			}
		}
		return err
	})
}

func (db *DB) actOnce(ctx context.Context, a *store.Action, f func(ctx context.Context, tx pgx.Tx) (changed bool, err error)) error {
	return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		changed, err := f(ctx, tx)
		if err != nil || a == nil {
			return err
		}
		if a.Outcome = store.ActionUnchanged; changed {
			a.Outcome = store.ActionDone
		}
		return WriteAction(ctx, tx, a)
	})
}

// WriteAction writes an action down, and when that was into a.
func WriteAction(ctx context.Context, tx pgx.Tx, a *store.Action) error {
	if _, err := tx.Exec(ctx, inOrder); err != nil {
		return err
	}
	return tx.QueryRow(ctx, insertAction, UUID(a.ID), CleanText(a.Actor), a.Token, a.Action, CleanText(a.Subject), CleanText(a.Reason),
		TextOrNull(a.Detail), string(a.Outcome), CleanText(a.Tenant), CleanText(a.Remote), TextOrNull(a.Before), TextOrNull(a.After)).Scan(&a.Seq, &a.At)
}

// Detail puts v into an action.
func Detail(a *store.Action, v any) error {
	raw, err := json.Marshal(v)
	a.Detail = raw
	return err
}
