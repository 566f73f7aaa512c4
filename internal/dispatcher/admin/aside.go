package admin

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Asides returns a page of the rows that the database rejected.
func (a *Admin) Asides(ctx context.Context, after job.ID, limit int) (api.AsideList, error) {
	found, err := a.Store.Asides(ctx, after, limit)
	if err != nil {
		return api.AsideList{}, fmt.Errorf("list rows set aside: %w", err)
	}
	out := api.AsideList{SetAside: append([]store.Aside{}, found...)}
	if len(found) == limit {
		out.Next = found[limit-1].ID
	}
	return out, nil
}

// RetryAside records a row that was set aside. It returns job.ErrConflict if the database still rejects it.
func (a *Admin) RetryAside(ctx context.Context, who Actor, id string, q api.OperatorRequest) (*store.Action, error) {
	return a.aside(ctx, who, "retry set-aside", id, q, a.Store.RetryAside)
}

// DropAside removes a row that was set aside and leaves its job unchanged. It returns job.ErrConflict if the job is
// held.
func (a *Admin) DropAside(ctx context.Context, who Actor, id string, q api.OperatorRequest) (*store.Action, error) {
	return a.aside(ctx, who, "drop set-aside", id, q, a.Store.DropAside)
}

func (a *Admin) aside(ctx context.Context, who Actor, action, id string, q api.OperatorRequest, do func(context.Context, *store.Action, job.ID) error) (*store.Action, error) {
	of, err := job.ParseID(id)
	if err != nil {
		return nil, fmt.Errorf("%w: no rejected result has the id %.80q", job.ErrNotFound, id)
	}
	return a.act(ctx, who, action, id, q.Reason, func(done *store.Action) error { return do(ctx, done, of) })
}
