package httpapi

import (
	"context"
	"encoding/json"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/browse"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/sessions"
	"github.com/assay-run/assay/internal/dispatcher/watch"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Store has the methods of the store that a Server calls: those of each group of routes, and those of its own routes.
type Store interface {
	browse.Source
	files.Store
	sessions.Store
	watch.BatchStore
	watch.LeaseStore
	uploadStore
	glanceStore

	Ping(ctx context.Context) error
	SigningKey(ctx context.Context) ([]byte, error)
	Tenants(ctx context.Context) ([]store.Tenant, error)

	Results(ctx context.Context, tenant string, batch job.ID, after store.Cursor, limit int) ([]json.RawMessage, store.Cursor, error)
	KeepBatch(ctx context.Context, tenant string, batch job.ID) (*job.Batch, error)

	Cancel(ctx context.Context, id job.ID) (store.Canceling, error)
	CancelBatch(ctx context.Context, batch job.ID) ([]store.Canceling, error)
	CancelMany(ctx context.Context, tenant string, q store.CancelQuery) (store.Canceled, error)
	Prioritize(ctx context.Context, tenant string, q store.PriorityQuery) (int64, error)

	PutPolicy(ctx context.Context, a *store.Action, tenant, name string, policy json.RawMessage) error
	Policy(ctx context.Context, tenant, name string, version int) (json.RawMessage, error)
	Policies(ctx context.Context, tenant string) ([]store.StoredPolicy, error)

	ActionsAfter(ctx context.Context, seq int64, q store.ActionQuery) ([]store.Action, error)
	ActionsSeq(ctx context.Context) (int64, error)
}
