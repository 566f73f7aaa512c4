package postgres

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestLiveSessionsAmongEnded holds that listing and counting a tenant's live sessions reads none of
// the ended ones, which stay for as long as history is kept, and none of other tenants.
func TestLiveSessionsAmongEnded(t *testing.T) {
	t.Parallel()
	p := &past{T: t, Store: openTest(t, Config{MaxConns: 1, MinConns: 1})}
	ctx := t.Context()
	live := job.Session{ID: job.NewID(), Worker: "w"}
	if err := p.PutSession(ctx, "t", live, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.PutSession(ctx, "other", job.Session{ID: job.NewID(), Worker: "w"}, 0); err != nil {
		t.Fatal(err)
	}
	p.exec(`INSERT INTO sessions (id, tenant_id, worker, spec, state, outcome, ended_at)
		SELECT gen_random_uuid(), (SELECT tenant_id FROM sessions WHERE id = $1), 'w', '{}', 'ended', 'succeeded', now() FROM generate_series(1, 20000)`, string(live.ID))
	p.exec(`INSERT INTO sessions (id, tenant_id, worker, spec)
		SELECT gen_random_uuid(), tenant_id, 'w', '{}' FROM sessions, generate_series(1, 20000) WHERE state = 'live' AND id <> $1`, string(live.ID))
	const most = 100 // blocks; the sessions above have over 1,000
	for name, call := range map[string]func() error{
		"list": func() error {
			found, err := p.ListSessions(ctx, "t", true, 100)
			if len(found) != 1 {
				t.Errorf("%d live sessions of the tenant", len(found))
			}
			return err
		},
		"list of all tenants, ended ones too": func() error {
			found, err := p.ListSessions(ctx, "", false, 20)
			if len(found) != 20 {
				t.Errorf("%d sessions of all tenants", len(found))
			}
			return err
		},
		"count": func() error { return p.PutSession(ctx, "t", live, 5) },
	} {
		for range 2 { // the first call of a connection plans the statement
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		before := p.blocks("sessions")
		if err := call(); err != nil {
			t.Fatal(err)
		}
		if n := p.blocks("sessions") - before; n > most {
			t.Errorf("%s: %d blocks were read for one live session, at most %d expected", name, n, most)
		}
	}
}

// blocks returns how many blocks of a table and its indexes were read so far by the only connection.
func (p *past) blocks(table string) (n int64) {
	p.Helper()
	p.exec(`SELECT pg_stat_force_next_flush()`)
	if err := p.db.Pool.QueryRow(p.Context(), `SELECT coalesce(sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read), 0)::bigint
		FROM pg_statio_user_tables WHERE relname = $1`, table).Scan(&n); err != nil {
		p.Fatal(err)
	}
	return n
}
