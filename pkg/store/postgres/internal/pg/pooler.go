package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
)

// ReachPause is how long Reach waits between tries.
const ReachPause = 250 * time.Millisecond

// Reach returns once the server answers, as components start in any order. It tries until
// ctx ends, and fails at once with job.ErrInvalid if the DSN cannot be read, or if a
// pooler is in front of the server that gives sessions to others between transactions.
func Reach(ctx context.Context, dsn string) error {
	cfg, err := ParseConn(dsn)
	if err != nil {
		return err
	}
	for {
		err := CheckSessions(ctx, cfg)
		if !errors.Is(err, job.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(ReachPause):
		}
	}
}

// CheckSessions rejects a server whose sessions are not the client's own. The store prepares statements, and its plans
// are right only under the settings of its sessions (see package postgres). A pooler that shares sessions (PgBouncer's
// pool_mode = transaction) loses both, in part without any error, so the store checks before it stores anything.
func CheckSessions(ctx context.Context, base *pgx.ConnConfig) error {
	cfg := TakesWrites(base.Copy())
	for k, v := range session {
		cfg.RuntimeParams[k] = v
	}
	// Named statements of a shared session belong to its next user.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.ConnectTimeout = 5 * time.Second
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) && strings.Contains(pg.Message, "unsupported startup parameter") {
			return shared("it refuses the settings of sessions: " + pg.Message)
		}
		return Translate("connect", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := checkSettings(ctx, conn); err != nil {
		return err
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return Translate("ask for the session", err)
	}
	if pid == conn.PgConn().PID() {
		return nil // the session that was opened is the server's own
	}
	return checkShared(ctx, cfg, conn, pid)
}

// checkSettings returns an error if the session lacks the settings with which conn was opened.
func checkSettings(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT name, current_setting(name) FROM unnest($1::text[]) AS name", slices.Sorted(maps.Keys(session)))
	if err != nil {
		return Translate("read settings", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, have string
		if err := rows.Scan(&name, &have); err != nil {
			return Translate("read settings", err)
		}
		if want := session[name]; have != want {
			return shared(fmt.Sprintf("it does not pass session settings on: %s is %s, not %s", name, have, want))
		}
	}
	return Translate("read settings", rows.Err())
}

// checkShared detects a pooler that shares sessions: while another client is in a transaction, that client must not be
// in conn's former session, and conn must not be in another one.
func checkShared(ctx context.Context, cfg *pgx.ConnConfig, conn *pgx.Conn, pid uint32) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	other, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return Translate("connect twice", err)
	}
	defer other.Close(context.WithoutCancel(ctx))
	tx, err := other.Begin(ctx)
	if err != nil {
		return Translate("connect twice", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var theirs, again uint32
	if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&theirs); err != nil {
		return Translate("ask for the session", err)
	}
	if theirs == pid {
		return shared("two clients were in one session of the server")
	}
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&again); err != nil {
		return Translate("ask for the session", err)
	}
	if again != pid {
		return shared("one client was in two sessions of the server")
	}
	return nil
}

func shared(how string) error {
	return fmt.Errorf("%w: database url: a pooler in front of PostgreSQL does not give each client its own session (%s); "+
		"give the address of the server itself, or of a pooler in session mode that passes startup parameters on", job.ErrInvalid, how)
}
