package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Transfers moves a tenant from one fleet to another: its grants, policies, secrets, idempotency keys, history and live
// keys. The rows of its tables travel as JSON objects; only a store of the same schema version takes them.
type Transfers interface {
	// Unfinished counts the work of a tenant that is not over. It returns job.ErrNotFound for an unknown tenant.
	Unfinished(ctx context.Context, tenant string) (Unfinished, error)
	// ExportTenant calls row with each row, in the order in which an import takes them. raw is valid during the call.
	// It holds a few MiB of rows in memory and no transaction. It returns job.ErrConflict if it meets work that is not
	// over, or work that began after the export, and job.ErrNotFound for an unknown tenant. Expired and revoked keys,
	// and keys of operators and admins, are not exported.
	ExportTenant(ctx context.Context, tenant string, row func(table string, raw []byte) error) error

	// BeginImport begins an import, or returns the state of the import with this id. It discards unfinished imports of
	// the same tenant with other ids. It returns job.ErrConflict if the tenant exists.
	BeginImport(ctx context.Context, i Import) (Import, error)
	// ImportRows adds rows of one table, all or none. after is the number of rows imported before. It returns
	// job.ErrConflict if that number differs, or if a row exists already, and job.ErrInvalid if the database refuses a row.
	ImportRows(ctx context.Context, id job.ID, after int64, table string, rows []json.RawMessage) error
	// FinishImport adds the keys, makes the tenant visible and records the action. rows is the number of rows imported
	// before. An import that is finished stays unchanged. It returns job.ErrConflict if the tenant exists by now, or if a
	// key exists already.
	FinishImport(ctx context.Context, a *Action, id job.ID, rows int64, keys []json.RawMessage) error
}

// The tables whose rows need more than a copy.
const (
	SecretsTable = "secrets" // their values are sealed
	KeysTable    = "keys"    // the last: FinishImport takes them
)

// Unfinished is the work of a tenant that is not over.
type Unfinished struct {
	Jobs, Batches, Sessions int64
	Callbacks               int64 // neither delivered nor given up
}

// Import is a tenant on its way into this store.
type Import struct {
	ID       job.ID // of the export
	Fleet    string // that exported
	Tenant   string
	Rows     int64 // imported so far
	Finished *time.Time
}
