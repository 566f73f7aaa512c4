package pg

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
)

// leaseGap is more leases than a server can have issued that its successor knows
// nothing of.
const leaseGap = 1_000_000_000

// A standby that did not have every commit, and a backup, do not know of the last
// leases: issued again they would let two attempts of one job pass for one another, and
// share the place of their artifacts. So a connection to a database with another history
// than the one that its leases were issued in first leaves a gap in them. A failover ends
// all connections, and no store uses one that has not looked.
const (
	readLineage = `
SELECT c.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || 'leases'::regclass::oid, (SELECT name FROM lineage)
FROM pg_control_system() c`

	beginLineage = `INSERT INTO lineage (name, reapplied) VALUES ($1, $1) ON CONFLICT DO NOTHING`

	// Who comes second waits for the row, and then has nothing to change.
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
	if untold(err) {
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

// untold says that a server does not tell which history it has: some that are run for
// others do not let anybody ask, or have no log of their own.
func untold(err error) bool {
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

// TakesWrites makes connections to the one of several servers that takes writes, and to
// no standby: it could be promoted under a connection, which would not have looked. Who
// says target_session_attrs gets that.
func TakesWrites(c *pgx.ConnConfig) *pgx.ConnConfig {
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return c
}
