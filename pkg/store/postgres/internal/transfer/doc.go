// Package transfer reads all rows of a tenant for another fleet, and adds the rows of a tenant from another fleet.
//
// Both directions copy whole rows as JSON, by the columns that the table has, so a new column needs no change here. A
// new table of tenants' data needs an entry in tables. The number of the tenant is the only column that changes.
package transfer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Mover implements store.Transfers. All methods are safe for concurrent use.
type Mover struct {
	db      *pg.DB
	waiting waiting
	days    days
}

// waiting counts queued work; *read.Reader implements it.
type waiting interface {
	Waiting(ctx context.Context, tenant string) (jobs, batches int64, err error)
}

// days makes partitions; *schema.Tables implements it.
type days interface {
	MakeDay(ctx context.Context, day time.Time) error
}

// New returns a Mover over an open database.
func New(db *pg.DB, w waiting, d days) *Mover { return &Mover{db, w, d} }

// table is a table that moves, and the statement that reads a page of it: the next rows of a scope ($1) after a row ($2),
// in the order of a unique index.
type table struct {
	name  string
	page  string // with %[1]d rows
	first string // a row before all others, as JSON
	owned bool   // it has a tenant_id
}

const (
	// settings has the columns of a tenant that move. The name, the pause and the entry of the tenants file stay.
	settings = `weight, max_running, ceiling, created_at, label_caps, override, override_until, granted, version`

	noID    = `{"id":"00000000-0000-0000-0000-000000000000"}`
	noBatch = `{"batch_id":"00000000-0000-0000-0000-000000000000"}`
	afterID = `r.id > ($2::json->>'id')::uuid ORDER BY r.id LIMIT %[1]d`
)

// named are the tables by the number of the tenant ($1), in the order of import: batches before their counts, sessions
// before their executions. Open uploads are unfinished work, and chunks of sealed ones have no use.
var named = []table{
	{name: "tenants", page: `SELECT r.* FROM tenants r WHERE r.id = $1 AND $2::json IS NOT NULL LIMIT %[1]d`, first: `{}`},
	{name: "policies", first: `{"name":"","version":0}`, owned: true, page: `SELECT r.* FROM policies r WHERE r.tenant_id = $1
		AND (r.name, r.version) > ($2::json->>'name', ($2::json->>'version')::integer) ORDER BY r.name, r.version LIMIT %[1]d`},
	{name: store.SecretsTable, first: `{"name":""}`, owned: true,
		page: `SELECT r.* FROM secrets r WHERE r.tenant_id = $1 AND r.name > $2::json->>'name' ORDER BY r.name LIMIT %[1]d`},
	{name: "idempotency_keys", first: `{"key":""}`, owned: true,
		page: `SELECT r.* FROM idempotency_keys r WHERE r.tenant_id = $1 AND r.key > $2::json->>'key' AND r.held_until IS NULL ORDER BY r.key LIMIT %[1]d`},
	{name: "batches", first: noID, owned: true, page: `SELECT r.* FROM batches r WHERE r.tenant_id = $1 AND r.sealed_at IS NOT NULL AND ` + afterID},
	{name: "batch_counts", first: noBatch, page: ofBatches("batch_counts")},
	{name: "batch_leases", first: noBatch, page: ofBatches("batch_leases")},
	{name: "callbacks", first: noBatch, page: ofBatches("callbacks"), owned: true},
	{name: "sessions", first: noID, owned: true, page: `SELECT r.* FROM sessions r WHERE r.tenant_id = $1 AND ` + afterID},
	{name: "executes", first: `{"session_id":"00000000-0000-0000-0000-000000000000","seq":0,"id":"00000000-0000-0000-0000-000000000000"}`,
		page: `SELECT r.* FROM sessions s, LATERAL (SELECT * FROM executes e WHERE e.session_id = s.id
			AND (e.session_id, e.seq, e.id) > (($2::json->>'session_id')::uuid, ($2::json->>'seq')::bigint, ($2::json->>'id')::uuid) ORDER BY e.seq, e.id LIMIT %[1]d) r
		WHERE s.tenant_id = $1 AND s.id >= ($2::json->>'session_id')::uuid ORDER BY s.id, r.seq, r.id LIMIT %[1]d`},
}

// ofBatches reads a table that has a row for a batch.
func ofBatches(name string) string {
	return `SELECT r.* FROM batches b JOIN ` + name + ` r ON r.batch_id = b.id
		WHERE b.tenant_id = $1 AND b.sealed_at IS NOT NULL AND b.id > ($2::json->>'batch_id')::uuid ORDER BY b.id LIMIT %[1]d`
}

// dated are the tables by ids of jobs ($1) of some days (%[2]s), in the order of import. Retention keeps a day for its jobs,
// so these come first.
var dated = []table{
	{name: "jobs", first: noID, owned: true, page: ofJobs("jobs")},
	{name: "specs", first: noID, page: ofJobs("specs")},
	{name: "attempts", first: `{"job_id":"00000000-0000-0000-0000-000000000000","lease":0}`, page: `SELECT r.* FROM attempts r WHERE r.job_id = ANY ($1::uuid[]) AND %[2]s
		AND (r.job_id, r.lease) > (($2::json->>'job_id')::uuid, ($2::json->>'lease')::bigint) ORDER BY r.job_id, r.lease LIMIT %[1]d`},
	{name: "results", first: noID, owned: true, page: ofJobs("results")},
}

// ofJobs reads a table that has a row for a job.
func ofJobs(name string) string {
	return `SELECT r.* FROM ` + name + ` r WHERE r.id = ANY ($1::uuid[]) AND %[2]s AND ` + afterID
}

// keys are those that let clients of the tenant in. Keys of operators and admins are rights over a fleet, not over a tenant.
var keys = table{name: store.KeysTable, first: noID, owned: true, page: `SELECT r.* FROM keys r WHERE r.tenant_id = $1 AND r.revoked_at IS NULL
	AND (r.expires_at IS NULL OR r.expires_at > now()) AND r.role IN ('reader', 'submitter') AND ` + afterID}

// find returns the table of a name, and whether its rows have days.
func find(name string) (t table, isDated bool, err error) {
	if i := slices.IndexFunc(dated, func(t table) bool { return t.name == name }); i >= 0 {
		return dated[i], true, nil
	}
	if i := slices.IndexFunc(named, func(t table) bool { return t.name == name }); i >= 0 {
		return named[i], false, nil
	}
	return t, false, fmt.Errorf("%w: table %.40q does not move", job.ErrInvalid, name)
}

// columns returns the columns of a table that move, as SQL.
func (m *Mover) columns(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, name string) (list string, err error) {
	if name == "tenants" {
		return settings, nil
	}
	err = q.QueryRow(ctx, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'tenant_id'`, name).Scan(&list)
	return list, err
}
