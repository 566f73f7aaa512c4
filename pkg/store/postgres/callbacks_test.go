package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// due makes n finished batches with callbacks for each of some tenants.
func (r *refusing) due(n int, tenants ...string) {
	r.t.Helper()
	for _, name := range tenants {
		r.must(r.PutTenant(r.t.Context(), store.Tenant{Name: name, Weight: 1}))
		r.exec(`ALTER TABLE batch_counts DISABLE TRIGGER USER`) // they cost more than the rest
		r.exec(fmt.Sprintf(`
			WITH b AS (INSERT INTO batches (id, tenant_id, sealed_at) SELECT gen_random_uuid(), t.id, now() FROM tenants t, generate_series(1, %d) WHERE t.name = '%s' RETURNING id, tenant_id),
			k AS (INSERT INTO callbacks (batch_id, delivery, tenant_id, url, ended_at) SELECT id, gen_random_uuid(), tenant_id, 'https://192.0.2.1/', now() FROM b)
			INSERT INTO batch_counts (batch_id, total, ended_at) SELECT id, 0, now() FROM b`, n, name))
	}
}

// blocks returns the number of index and table blocks that this connection has read since the last call.
func (r *refusing) blocks(table string) (n int64) {
	r.t.Helper()
	r.exec(`SELECT pg_stat_force_next_flush()`)
	r.must(r.db.Pool.QueryRow(r.t.Context(), `SELECT coalesce(sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read), 0)::bigint FROM pg_statio_user_tables WHERE relname = $1`, table).Scan(&n))
	return n
}

// TestManyDueCallbacks checks that a look at callbacks reads only the rows that it takes, regardless of the number
// of due callbacks and of tenants.
func TestManyDueCallbacks(t *testing.T) {
	t.Parallel()
	r := &refusing{openTest(t, Config{MaxConns: 1, MinConns: 1}), t}
	for range 5 {
		r.due(4000, "flood")
	}
	r.due(1, "other")
	r.exec(`VACUUM ANALYZE callbacks`)
	before := r.blocks("callbacks")
	const looks = 10
	var of = map[string]int{}
	for range looks {
		got, next, err := r.TakeCallbacks(t.Context(), store.CallbackQuery{N: 16, Share: 8, Lease: time.Minute})
		if r.must(err); next != 0 {
			t.Fatalf("it goes on after %d", next)
		}
		for _, c := range got {
			of[c.Tenant]++
		}
	}
	if of["flood"] != 8*looks || of["other"] != 1 {
		t.Errorf("taken: %v", of)
	}
	if n := (r.blocks("callbacks") - before) / looks; n > 600 {
		t.Errorf("a look reads %d blocks of callbacks; 20,000 are due", n)
	}
	if n, err := r.OpenCallbacks(t.Context(), "flood"); err != nil || n != store.MaxOpenCallbacks {
		t.Errorf("%d are open, %v", n, err)
	}
}

// TestCallbacksOfManyTenants checks that each look continues after the last one, until all tenants had their
// turn.
func TestCallbacksOfManyTenants(t *testing.T) {
	t.Parallel()
	r := newRefusing(t)
	r.exec(`INSERT INTO tenants (name) SELECT 'n' || n FROM generate_series(1, 1200) n`)
	r.exec(`WITH b AS (INSERT INTO batches (id, tenant_id, sealed_at) SELECT gen_random_uuid(), id, now() FROM tenants RETURNING id, tenant_id),
		k AS (INSERT INTO callbacks (batch_id, delivery, tenant_id, url, next_at) SELECT id, gen_random_uuid(), tenant_id, 'https://192.0.2.1/', now() + interval '1 hour' FROM b)
		INSERT INTO batch_counts (batch_id, total, ended_at) SELECT id, 0, now() FROM b`)
	r.exec(`UPDATE callbacks SET next_at = now() WHERE tenant_id = (SELECT max(id) FROM tenants)`)
	after, found := int64(0), 0
	for range 4 {
		got, next, err := r.TakeCallbacks(t.Context(), store.CallbackQuery{N: 16, Lease: time.Minute, After: after})
		r.must(err)
		after, found = next, found+len(got)
	}
	if found != 1 {
		t.Errorf("%d callbacks are found, want the one that is due", found)
	}
}

// TestRefusedCallback checks that a callback that cannot be taken blocks no other.
func TestRefusedCallback(t *testing.T) {
	t.Parallel()
	r := newRefusing(t)
	batch, jobs := r.submit(1)
	r.submit(1)
	r.submit(1)
	held := r.run()
	var all []job.ID
	for id := range held {
		all = append(all, id)
	}
	r.finish(held, all...)
	r.refuse("callbacks", "UPDATE", "23514", fmt.Sprintf(`OLD.batch_id = '%s'`, batch))
	got, _, err := r.TakeCallbacks(t.Context(), store.CallbackQuery{N: 3, Lease: time.Minute})
	r.must(err)
	more, _, err := r.TakeCallbacks(t.Context(), store.CallbackQuery{N: 3, Lease: time.Minute})
	if r.must(err); len(got)+len(more) != 2 {
		t.Errorf("%d are taken of %d, want 2", len(got)+len(more), len(jobs)+2)
	}
}

// TestKeysInALoop checks that a tenant that makes and revokes keys meets a limit, and that the error names
// it.
func TestKeysInALoop(t *testing.T) {
	t.Parallel()
	r := newRefusing(t)
	r.must(r.PutTenant(t.Context(), store.Tenant{Name: "t", Weight: 1}))
	r.exec(fmt.Sprintf(`INSERT INTO keys (id, tenant_id, name, hash, role, created_by, revoked_at)
		SELECT ('%s' || lpad(n::text, 12, '0'))::uuid, t.id, 'k', sha256(n::text::bytea), 'reader', 'x', now() FROM tenants t, generate_series(1, %d) n WHERE t.name = 't'`,
		string(job.NewID())[:24], store.MaxNewKeys))
	k := store.LiveKey{Hash: [32]byte{1}, Key: store.Key{ID: job.NewID(), Name: "one more", Tenant: "t", Role: "reader", CreatedBy: "x"}}
	_, err := r.PutKey(t.Context(), &store.Action{ID: job.NewID(), Actor: "x", Action: "make key", Subject: string(k.ID)}, k)
	if !errors.Is(err, job.ErrTooMany) || !strings.Contains(err.Error(), "2000 are the most") {
		t.Errorf("one more: %v", err)
	}
}
