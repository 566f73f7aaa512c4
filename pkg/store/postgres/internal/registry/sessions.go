package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// PutSession implements store.Sessions.
func (s *Registry) PutSession(ctx context.Context, tenant string, v job.Session, most int) error {
	spec, err := json.Marshal(v.Spec)
	if err != nil {
		return fmt.Errorf("%w: session: %w", job.ErrInvalid, err)
	}
	enforcement, err := json.Marshal(v.Enforcement)
	if err != nil {
		return fmt.Errorf("%w: session: %w", job.ErrInvalid, err)
	}
	return s.db.Do(ctx, "put session", func(ctx context.Context) error {
		t, err := s.db.TenantID(ctx, tenant)
		if err != nil {
			return err
		}
		return s.counted(ctx, t, v.ID, most, func(db querier) error {
			_, err := db.Exec(ctx, `
				INSERT INTO sessions (id, tenant_id, worker, parent, spec, enforcement) VALUES ($1, $2, $3, nullif($4, '')::uuid, $5, $6)
				ON CONFLICT (id) DO NOTHING`, string(v.ID), t, v.Worker, string(v.Parent), string(spec), string(enforcement))
			return err
		})
	})
}

// querier is a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// counted calls insert if the tenant then has at most most live sessions. Concurrent inserts wait for each other;
// otherwise all of them would see the same free place.
func (s *Registry) counted(ctx context.Context, tenant int32, id job.ID, most int, insert func(querier) error) error {
	if most <= 0 {
		return insert(s.db.Pool)
	}
	return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('assay sessions', $1))`, int64(tenant)); err != nil {
			return err
		}
		var live int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM sessions WHERE tenant_id = $1 AND state = 'live' AND id <> $2`, tenant, string(id)).Scan(&live)
		if err != nil {
			return err
		}
		if live >= most {
			return fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("sessions", "this tenant has reached its ceiling of %d live sessions; close some", most))
		}
		return insert(tx)
	})
}

// ForkSession implements store.Sessions.
func (s *Registry) ForkSession(ctx context.Context, tenant string, parent, id job.ID, most int) (out *job.Session, err error) {
	err = s.db.Do(ctx, "fork session", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		v := &job.Session{ID: id, Tenant: tenant, Parent: parent, State: job.SessionLive}
		var spec, enforcement string
		err = s.counted(ctx, t, id, most, func(db querier) error {
			return db.QueryRow(ctx, `
				INSERT INTO sessions (id, tenant_id, worker, parent, spec, enforcement)
				SELECT $3, tenant_id, worker, id, spec, enforcement FROM sessions WHERE id = $2 AND tenant_id = $1
				ON CONFLICT (id) DO UPDATE SET parent = excluded.parent RETURNING worker, spec, coalesce(enforcement, 'null'), created_at`,
				t, string(parent), string(id)).Scan(&v.Worker, &spec, &enforcement, &v.CreatedAt)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: session %s", job.ErrNotFound, parent)
		}
		if err != nil {
			return err
		}
		out = v
		return errors.Join(json.Unmarshal([]byte(spec), &v.Spec), json.Unmarshal([]byte(enforcement), &v.Enforcement))
	})
	return out, err
}

// ForgetSession implements store.Sessions.
func (s *Registry) ForgetSession(ctx context.Context, id job.ID) error {
	return s.db.Do(ctx, "forget session", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `DELETE FROM sessions s WHERE s.id = $1 AND NOT EXISTS (SELECT FROM executes e WHERE e.session_id = s.id)`, string(id))
		return err
	})
}

const sessionColumns = `s.id::text, (SELECT name FROM tenants t WHERE t.id = s.tenant_id), s.worker, coalesce(s.parent::text, ''), s.spec, s.state, coalesce(s.outcome, ''), coalesce(s.message, ''),
	s.created_at, s.ended_at, coalesce(s.enforcement, 'null'), s.executed`

func scanSession(row pgx.CollectableRow) (v job.Session, err error) {
	var spec, enforcement string
	err = row.Scan(&v.ID, &v.Tenant, &v.Worker, &v.Parent, &spec, &v.State, &v.Outcome, &v.Message, &v.CreatedAt, &v.EndedAt, &enforcement, &v.Executions)
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(spec), &v.Spec), json.Unmarshal([]byte(enforcement), &v.Enforcement))
	}
	return v, err
}

// Session implements store.Sessions.
func (s *Registry) Session(ctx context.Context, tenant string, id job.ID) (out *job.Session, err error) {
	err = s.db.Do(ctx, "session", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.id = $1 AND s.tenant_id = $2`, string(id), t)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanSession)
		if err == nil && len(found) == 0 {
			return fmt.Errorf("%w: session %s", job.ErrNotFound, id)
		}
		if err == nil {
			out = &found[0]
		}
		return err
	})
	return out, s.db.TranslateNotFound(ctx, id, err)
}

// listSessions lists the sessions of a tenant ($1), or of all. The live ones of a tenant have an index of their own,
// sessions_tenant_live. Those of all are few: OFFSET 0 makes sure that they are selected before they are sorted.
func listSessions(all, live bool) string {
	const list = `SELECT ` + sessionColumns + ` FROM `
	switch {
	case all && live:
		return list + `(SELECT * FROM sessions WHERE state = 'live' AND $1::integer = 0 OFFSET 0) s ORDER BY s.id DESC LIMIT $2`
	case all:
		return list + `sessions s WHERE $1::integer = 0 ORDER BY s.id DESC LIMIT $2`
	case live:
		return list + `sessions s WHERE s.tenant_id = $1 AND s.state = 'live' ORDER BY s.tenant_id DESC, s.id DESC LIMIT $2`
	}
	return list + `sessions s WHERE s.tenant_id = $1 ORDER BY s.tenant_id DESC, s.id DESC LIMIT $2`
}

// ListSessions implements store.Sessions.
func (s *Registry) ListSessions(ctx context.Context, tenant string, live bool, limit int) (out []job.Session, err error) {
	err = s.db.Do(ctx, "sessions", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, listSessions(t == 0, live), t, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanSession)
		return err
	})
	return out, err
}

// EndSession implements store.Sessions.
func (s *Registry) EndSession(ctx context.Context, id job.ID, worker string, o job.Outcome, message string) (ended bool, err error) {
	err = s.db.Do(ctx, "end session", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, `
			UPDATE sessions SET state = 'ended', outcome = $2, message = $3, ended_at = now() WHERE id = $1 AND worker = $4 AND state = 'live'`,
			string(id), string(o), pg.CleanText(message), worker)
		ended = tag.RowsAffected() > 0
		return err
	})
	return ended, err
}

// reapSessions begins at the sessions of the worker that comes first by its name.
const reapSessions = `
UPDATE sessions s SET state = 'ended', outcome = 'lost', message = 'its worker is gone', ended_at = now()
FROM (SELECT s.id FROM sessions s
	WHERE s.state = 'live' AND s.created_at < now() - $1 * interval '1 millisecond' AND NOT EXISTS (
		SELECT FROM workers w WHERE w.id = s.worker AND w.seen_at > now() - $1 * interval '1 millisecond')
	ORDER BY s.worker LIMIT $2 OFFSET $3) i
WHERE s.id = i.id AND s.state = 'live'`

// ReapSessions implements store.Sessions.
func (s *Registry) ReapSessions(ctx context.Context, silence time.Duration) (n int64, err error) {
	const op = "reap sessions"
	err = pg.Chunks(1000, time.Now().Add(time.Second), func(c pg.Chunk) (some int, err error) {
		err = s.db.Do(ctx, op, func(ctx context.Context) error {
			tag, err := s.db.Pool.Exec(ctx, reapSessions, silence.Milliseconds(), c.Limit, c.Offset)
			some = int(tag.RowsAffected())
			return err
		})
		n += int64(some)
		return some, err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, op, cause) })
	return n, err
}

// unrecorded is how old a session is, by the clock of the dispatcher that named it, that has no
// record and will not have one any more.
const unrecorded = 15 * time.Minute

const lostSessions = `
SELECT i.id::text, i.worker FROM unnest($1::uuid[], $2::text[]) AS i (id, worker) LEFT JOIN sessions s ON s.id = i.id
WHERE s.state <> 'live' OR s.worker <> i.worker OR s.id IS NULL AND i.id < $3`

// LostSessions implements store.Sessions.
func (s *Registry) LostSessions(ctx context.Context, held []store.HeldSession) (lost []store.HeldSession, err error) {
	if len(held) == 0 {
		return nil, nil
	}
	ids, workers := make([]job.ID, len(held)), make([]string, len(held))
	for i, h := range held {
		ids[i], workers[i] = h.Session, h.Worker
	}
	err = s.db.Urgent(ctx, "lost sessions", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, lostSessions, pg.UUIDs(ids), workers, pg.UUID(job.FirstIDAt(time.Now().Add(-unrecorded))))
		if err != nil {
			return err
		}
		lost, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h store.HeldSession, err error) {
			return h, row.Scan(&h.Session, &h.Worker)
		})
		return err
	})
	return lost, err
}

// PutExecute implements store.Sessions. Its commit does not wait for the disk: see the package's
// documentation. A second record of an execution violates the primary key, so it counts once.
func (s *Registry) PutExecute(ctx context.Context, e store.Executed) error {
	return s.db.Do(ctx, "put execute", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `
			WITH numbered AS (
				UPDATE sessions SET executed = executed + 1
				WHERE id = $1::uuid AND set_config('synchronous_commit', 'off', true) = 'off' RETURNING id, executed)
			INSERT INTO executes (session_id, id, code, result, seq)
			SELECT id, $2::uuid, $3, $4, executed FROM numbered`,
			string(e.Session), string(e.ID), pg.CleanText(e.Code), string(e.Result))
		if pg.IsUniqueViolation(err) {
			return nil
		}
		return err
	})
}

// Executions implements store.Sessions.
func (s *Registry) Executions(ctx context.Context, tenant string, session, after job.ID, limit int) (out []store.Executed, err error) {
	err = s.db.Do(ctx, "executions", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, `
			SELECT e.id::text, e.code, e.result, e.created_at FROM executes e JOIN sessions s ON s.id = e.session_id
			WHERE e.session_id = $1 AND s.tenant_id = $2 AND ($3 = '' OR (e.seq, e.id) > (
				coalesce((SELECT a.seq FROM executes a WHERE a.session_id = $1 AND a.id = nullif($3, '')::uuid), 0), nullif($3, '')::uuid))
			ORDER BY e.session_id, e.seq, e.id LIMIT $4`,
			string(session), t, string(after), limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Executed, error) {
			e := store.Executed{Session: session}
			var result string
			err := row.Scan(&e.ID, &e.Code, &result, &e.CreatedAt)
			e.Result = json.RawMessage(result)
			return e, err
		})
		return err
	})
	return out, err
}
