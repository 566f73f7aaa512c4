package read

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/store"
)

// oldestHolder finds the session, slot or prepared transaction with the oldest snapshot. A standby with
// hot_standby_feedback appears as the session of its WAL sender, or by its slot.
const oldestHolder = `
SELECT h.kind, h.pid, h.name, h.usename, h.state, h.statement, h.seconds, h.transactions FROM (
	SELECT CASE WHEN backend_type = 'walsender' THEN 'standby' ELSE 'session' END AS kind, pid, coalesce(application_name, '') AS name,
		coalesce(usename::text, '') AS usename, coalesce(state, '') AS state, left(coalesce(query, ''), 120) AS statement,
		coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::float8 AS seconds, age(backend_xmin)::bigint AS transactions
	FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
	UNION ALL
	SELECT 'slot', coalesce(active_pid, 0), slot_name::text, '', CASE WHEN active THEN 'active' ELSE 'inactive' END, '', 0,
		greatest(age(xmin), age(catalog_xmin))::bigint
	FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
	UNION ALL
	SELECT 'prepared', 0, gid, owner::text, '', '', extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)::bigint
	FROM pg_prepared_xacts) h
ORDER BY h.transactions DESC NULLS LAST, h.seconds DESC LIMIT 1`

// databaseState counts bounded resources: locks, connections, partitions.
var databaseState = fmt.Sprintf(`
SELECT (SELECT count(*) FROM pg_locks WHERE NOT fastpath),
	current_setting('max_locks_per_transaction')::bigint * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
	current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
	(SELECT count(*) FROM pg_inherits WHERE inhparent = 'jobs'::regclass),
	(SELECT count(*) FROM pg_index WHERE indrelid = 'jobs'::regclass),
	assay_live_days(),
	(SELECT coalesce(sum(s.n_dead_tup), 0)::bigint FROM pg_inherits i JOIN pg_stat_user_tables s ON s.relid = i.inhrelid WHERE i.inhparent = 'jobs'::regclass),
	coalesce(extract(epoch FROM now() - (SELECT min(dispatched_at) FROM live_jobs WHERE state = 'dispatched')), 0)::float8,
	(SELECT count(*) FROM (SELECT FROM callbacks WHERE delivered_at IS NULL AND given_up_at IS NULL LIMIT %[1]d) c),
	(SELECT count(*) FROM (SELECT FROM jobs_default LIMIT %[1]d) d)`, store.StatsCap)

// serverSettings are the settings on which a fleet depends.
const serverSettings = `
SELECT name, setting || coalesce(unit, '') FROM pg_settings WHERE name IN ('max_connections', 'superuser_reserved_connections', 'max_locks_per_transaction',
	'max_prepared_transactions', 'autovacuum', 'autovacuum_naptime', 'autovacuum_max_workers', 'autovacuum_vacuum_scale_factor',
	'autovacuum_vacuum_cost_delay', 'autovacuum_vacuum_cost_limit', 'vacuum_cost_limit', 'track_counts', 'idle_in_transaction_session_timeout',
	'old_snapshot_threshold', 'shared_buffers', 'fsync', 'synchronous_commit', 'server_version')`

// feedback lists standbys whose queries delay vacuum.
const feedback = `SELECT coalesce(nullif(application_name, ''), host(client_addr), pid::text) FROM pg_stat_replication WHERE backend_xmin IS NOT NULL`

// usage counts live batches, those still open included, and live sessions. The condition on sealed_at is as in outstanding.
const usage = `
SELECT t.name, sum(u.batches)::bigint, sum(u.sessions)::bigint FROM (
	SELECT b.tenant_id, count(*) AS batches, 0 AS sessions FROM batch_counts c JOIN batches b ON b.id = c.batch_id
	WHERE c.ended_at IS NULL AND coalesce(b.sealed_at, 'infinity') < 'infinity' GROUP BY 1
	UNION ALL
	SELECT b.tenant_id, count(*), 0 FROM batches b WHERE b.sealed_at IS NULL AND b.dropped_at IS NULL GROUP BY 1
	UNION ALL
	SELECT s.tenant_id, 0, count(*) FROM sessions s WHERE s.state = 'live' GROUP BY 1) u JOIN tenants t ON t.id = u.tenant_id
GROUP BY 1`

// Usage implements store.Health.
func (s *Reader) Usage(ctx context.Context) (all map[string]fleet.Usage, err error) {
	err = s.db.Do(ctx, "usage of tenants", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, usage)
		if err != nil {
			return err
		}
		all = map[string]fleet.Usage{}
		var name string
		var u fleet.Usage
		_, err = pgx.ForEachRow(rows, []any{&name, &u.Batches, &u.Sessions}, func() error { all[name] = u; return nil })
		return err
	})
	return all, err
}

// Database implements store.Health.
func (s *Reader) Database(ctx context.Context) (d fleet.Database, err error) {
	err = s.db.Do(ctx, "state of the database", func(ctx context.Context) error {
		d = fleet.Database{Settings: map[string]string{}}
		b := &pgx.Batch{}
		b.Queue(oldestHolder)
		b.Queue(databaseState)
		b.Queue(serverSettings)
		b.Queue(feedback)
		res := s.db.Pool.SendBatch(ctx, b)
		defer res.Close()
		var h fleet.Holder
		switch err := res.QueryRow().Scan(&h.Kind, &h.PID, &h.Name, &h.User, &h.State, &h.Statement, &h.Seconds, &h.Transactions); {
		case err == nil:
			d.Holder = &h
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		if err := res.QueryRow().Scan(&d.Locks, &d.LocksMax, &d.Connections, &d.ConnectionsMax, &d.Partitions, &d.Indexes, &d.LiveDays, &d.DeadRows,
			&d.OldestDispatched, &d.Callbacks, &d.Undated); err != nil {
			return err
		}
		rows, err := res.Query()
		if err != nil {
			return err
		}
		var name, value string
		if _, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error { d.Settings[name] = value; return nil }); err != nil {
			return err
		}
		if rows, err = res.Query(); err != nil {
			return err
		}
		if d.Feedback, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		return res.Close()
	})
	return d, err
}
