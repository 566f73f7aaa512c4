package pg

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
)

// leaseGap is more leases than a server can have issued without its successor's knowledge.
const leaseGap = 1_000_000_000

// A standby without every commit, and a backup, lack the last leases. Issued again, these would make two attempts of
// one job look the same and share the place of their artifacts. So a connection to a database with another history than
// the one in which its leases were issued first leaves a gap in them. A failover ends all connections, and the store
// uses no connection that has not checked.
const (
	readLineage = `
SELECT c.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || 'leases'::regclass::oid, (SELECT name FROM lineage)
FROM pg_control_system() c`

	beginLineage = `INSERT INTO lineage (name, reapplied) VALUES ($1, $1) ON CONFLICT DO NOTHING`

	// The second process waits for the row, and then changes nothing.
	changeLineage = `
WITH moved AS (UPDATE lineage SET name = $1, since = now() WHERE name <> $1 RETURNING name)
SELECT setval('leases', l.last_value + $2::bigint) FROM leases l, moved`
)

// continueLeases is called with each new connection.
func (c Config) continueLeases(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var now string
	var before *string
	err := conn.QueryRow(ctx, readLineage).Scan(&now, &before)
	if hidesHistory(err) {
		return nil
	}
	if err != nil {
		return Translate("read the lineage", err)
	}
	if before == nil {
		_, err := conn.Exec(ctx, beginLineage, now)
		return Translate("begin the lineage", err)
	}
	if *before == now {
		return nil
	}
	var from job.Lease
	switch err := conn.QueryRow(ctx, changeLineage, now, leaseGap).Scan(&from); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // another connection was first
	case err != nil:
		return Translate("change the lineage", err)
	}
	slog.WarnContext(ctx, "database history changed: it was promoted or restored", "was", *before, "is", now, "leases go on after", from)
	return nil
}

// hidesHistory reports whether a server does not reveal its history: some hosted servers allow no such query, or have no log
// of their own.
func hidesHistory(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case InsufficientPrivilege, featureNotSupported, undefinedFunction:
		return true
	}
	return false
}

// TakesWrites makes connections choose the server that takes writes, and no standby: it could be promoted under a
// connection, which would not have checked. An explicit target_session_attrs has precedence.
func TakesWrites(c *pgx.ConnConfig) *pgx.ConnConfig {
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return c
}
