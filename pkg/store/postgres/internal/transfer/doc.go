// Package transfer reads all rows of a tenant for another fleet, and adds the rows of a tenant from another fleet.
//
// Both directions copy whole rows as JSON, by the columns that the table has, so a new column needs no change here. A
// new table of tenants' data needs an entry in tables. The number of the tenant is the only column that changes.
package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// table is a table that moves, page by page in the order of a unique index.
type table struct {
	name      string
	where     string   // the rows of a scope ($1): of a tenant by its number, or of rows by their ids
	order     []string // columns of the index after those of where, each with its type
	hasTenant bool     // it has a tenant_id
	of        []table  // tables that belong to the rows of a page
}

const (
	// settings has the columns of a tenant that move. The name, the pause and the entry of the tenants file stay.
	settings = `weight, max_running, ceiling, created_at, label_caps, override, override_until, granted, version`

	ofTenant = `tenant_id = $1`
	ofJobs   = `id = ANY ($1::uuid[])`
	ofBatch  = `batch_id = ANY ($1::uuid[])`
)

// tenantTables are the tables by the number of the tenant, in the order of import. Open uploads are unfinished work, and chunks of
// sealed ones have no use.
var tenantTables = []table{
	{name: "tenants", where: `id = $1`, order: []string{"id integer"}},
	{name: "policies", where: ofTenant, order: []string{"name text", "version integer"}, hasTenant: true},
	{name: store.SecretsTable, where: ofTenant, order: []string{"name text"}, hasTenant: true},
	{name: "idempotency_keys", where: ofTenant + ` AND held_until IS NULL`, order: []string{"key text"}, hasTenant: true},
	{name: "batches", where: ofTenant + ` AND sealed_at IS NOT NULL`, order: []string{"id uuid"}, hasTenant: true, of: []table{
		{name: "batch_counts", where: ofBatch, order: []string{"batch_id uuid"}},
		{name: "batch_leases", where: ofBatch, order: []string{"batch_id uuid"}},
		{name: "callbacks", where: ofBatch, order: []string{"batch_id uuid"}, hasTenant: true}}},
	{name: "sessions", where: ofTenant, order: []string{"id uuid"}, hasTenant: true, of: []table{
		{name: "executes", where: `session_id = ANY ($1::uuid[])`, order: []string{"session_id uuid", "seq bigint", "id uuid"}}}},
}

// jobTables are the tables by ids of jobs, in the order of import. Retention keeps a day for its jobs, so these come first.
var jobTables = []table{
	{name: "jobs", where: ofJobs, order: []string{"id uuid"}, hasTenant: true},
	{name: "specs", where: ofJobs, order: []string{"id uuid"}},
	{name: "attempts", where: `job_id = ANY ($1::uuid[])`, order: []string{"job_id uuid", "lease bigint"}},
	{name: "results", where: ofJobs, order: []string{"id uuid"}, hasTenant: true},
}

// keyTable has the keys that let clients of the tenant in. Keys of operators and admins are rights over a fleet, not over a tenant.
var keyTable = table{name: store.KeysTable, order: []string{"id uuid"}, hasTenant: true,
	where: ofTenant + ` AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) AND role IN ('reader', 'submitter')`}

// zeros are the values before all others of a type, as JSON.
var zeros = map[string]string{"uuid": `"00000000-0000-0000-0000-000000000000"`, "text": `""`, "integer": `0`, "bigint": `0`}

// page returns the statement that reads the columns of the next rows after a row ($2, as JSON), and a row before all others.
func (t table) page(columns string, days *pg.Days) (sql, first string) {
	var names, after, zero []string
	for _, column := range t.order {
		name, kind, _ := strings.Cut(column, " ")
		names = append(names, name)
		after = append(after, fmt.Sprintf(`($2::json->>'%s')::%s`, name, kind))
		zero = append(zero, fmt.Sprintf(`"%s":%s`, name, zeros[kind]))
	}
	where := t.where
	if days != nil {
		where += ` AND ` + days.In(names[0])
	}
	order := strings.Join(names, ", ")
	return fmt.Sprintf(`SELECT row_to_json(r)::text FROM (SELECT %s FROM %s WHERE %s AND (%s) > (%s) ORDER BY %s LIMIT %d) r`,
		columns, t.name, where, order, strings.Join(after, ", "), order, pageRows), `{` + strings.Join(zero, ",") + `}`
}

// find returns the table of a name, and whether its rows have days.
func find(name string) (t table, isOfJobs bool, err error) {
	all := slices.Clone(tenantTables)
	for _, t := range tenantTables {
		all = append(all, t.of...)
	}
	for i, t := range append(all, jobTables...) {
		if t.name == name {
			return t, i >= len(all), nil
		}
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
