package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Admin has the operators' calls. They require an operator's token.
type Admin struct{ c *Client }

// Admin returns the operators' part of the API.
func (c *Client) Admin() Admin { return Admin{c} }

// Actions lists operators' actions, newest first. A Limit of 0 means the default page size.
func (a Admin) Actions(ctx context.Context, q fleet.ActionQuery) (out api.ActionList, err error) {
	v := actionValues(q)
	if q.Before != "" {
		v.Set("before", string(q.Before))
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	_, err = a.c.json(ctx, get("/v1/admin/actions", v), &out)
	return out, err
}

// Cordon stops a worker from taking jobs. Its running jobs continue.
func (a Admin) Cordon(ctx context.Context, worker, reason string) (fleet.Action, error) {
	return a.worker(ctx, worker, "cordon", api.OperatorRequest{Reason: reason})
}

// Uncordon ends a cordon.
func (a Admin) Uncordon(ctx context.Context, worker, reason string) (fleet.Action, error) {
	return a.worker(ctx, worker, "uncordon", api.OperatorRequest{Reason: reason})
}

// CordonAll stops the chosen workers from taking jobs. Their running jobs continue.
func (a Admin) CordonAll(ctx context.Context, q api.WorkersRequest) (api.WorkersReport, error) {
	return send[api.WorkersReport](ctx, a, "/v1/admin/workers/cordon", q)
}

// UncordonAll lets the chosen workers take jobs again.
func (a Admin) UncordonAll(ctx context.Context, q api.WorkersRequest) (api.WorkersReport, error) {
	return send[api.WorkersReport](ctx, a, "/v1/admin/workers/uncordon", q)
}

// Quarantine stops a worker from taking jobs for a while.
func (a Admin) Quarantine(ctx context.Context, worker string, q api.QuarantineRequest) (fleet.Action, error) {
	return a.worker(ctx, worker, "quarantine", q)
}

// Unquarantine ends a quarantine.
func (a Admin) Unquarantine(ctx context.Context, worker, reason string) (fleet.Action, error) {
	return a.worker(ctx, worker, "unquarantine", api.OperatorRequest{Reason: reason})
}

func (a Admin) worker(ctx context.Context, worker, action string, q any) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/workers/"+worker+"/"+action, q)
}

// Worker returns one worker and its current work.
func (a Admin) Worker(ctx context.Context, worker string) (out api.WorkerStatus, err error) {
	_, err = a.c.json(ctx, get("/v1/admin/workers/"+worker, nil), &out)
	return out, err
}

// Leader returns the dispatcher that schedules.
func (a Admin) Leader(ctx context.Context) (out fleet.Leader, err error) {
	_, err = a.c.json(ctx, get("/v1/admin/leader", nil), &out)
	return out, err
}

// WhySlow returns the state of everything that can make the fleet slow, and what stands out.
func (a Admin) WhySlow(ctx context.Context) (out api.WhySlow, err error) {
	_, err = a.c.json(ctx, get("/v1/admin/why-slow", nil), &out)
	return out, err
}

// Version returns the versions of the fleet's programs.
func (a Admin) Version(ctx context.Context) (out api.FleetVersion, err error) {
	_, err = a.c.json(ctx, get("/v1/admin/version", nil), &out)
	return out, err
}

// Requeue moves jobs to other workers, or starts them at once.
func (a Admin) Requeue(ctx context.Context, q api.RequeueRequest) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/requeue", q)
}

// Pause pauses a batch, a tenant's jobs or a pool's workers.
func (a Admin) Pause(ctx context.Context, q api.PauseRequest) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/pause", q)
}

// Resume ends a pause.
func (a Admin) Resume(ctx context.Context, q api.PauseRequest) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/resume", q)
}

// Pauses lists current pauses.
func (a Admin) Pauses(ctx context.Context) ([]fleet.Pause, error) {
	var out api.PauseList
	_, err := a.c.json(ctx, get("/v1/admin/pauses", nil), &out)
	return out.Pauses, err
}

// Asides returns the ends of jobs that the database refused, the oldest first.
func (a Admin) Asides(ctx context.Context) (all []fleet.Aside, err error) {
	for v := (url.Values{}); ; {
		var page api.AsideList
		if _, err := a.c.json(ctx, get("/v1/admin/set-aside", v), &page); err != nil {
			return nil, err
		}
		if all = append(all, page.SetAside...); page.Next == "" {
			return all, nil
		}
		v.Set("after", string(page.Next))
	}
}

// RetryAside records the results that are set aside, and deletes them there.
func (a Admin) RetryAside(ctx context.Context, id job.ID, reason string) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/set-aside/"+string(id)+"/retry", api.OperatorRequest{Reason: reason})
}

// DropAside deletes the results that are set aside.
func (a Admin) DropAside(ctx context.Context, id job.ID, reason string) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/set-aside/"+string(id)+"/drop", api.OperatorRequest{Reason: reason})
}

// Tenant returns a tenant's effective limits.
func (a Admin) Tenant(ctx context.Context, name string) (out fleet.Tenant, err error) {
	_, err = a.c.json(ctx, get("/v1/admin/tenants/"+name, nil), &out)
	return out, err
}

// Override replaces some of a tenant's limits.
func (a Admin) Override(ctx context.Context, tenant string, q api.OverrideRequest) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/tenants/"+tenant+"/override", q)
}

// Restore ends an override.
func (a Admin) Restore(ctx context.Context, tenant, reason string) (fleet.Action, error) {
	return send[fleet.Action](ctx, a, "/v1/admin/tenants/"+tenant+"/restore", api.OperatorRequest{Reason: reason})
}

// Verify compares the counters of batches with their rows.
func (a Admin) Verify(ctx context.Context, q api.VerifyRequest) (api.VerifyReport, error) {
	return send[api.VerifyReport](ctx, a, "/v1/admin/verify", q)
}

// Sweep removes or counts objects of attempts without a record.
func (a Admin) Sweep(ctx context.Context, q api.SweepRequest) (api.SweepReport, error) {
	return send[api.SweepReport](ctx, a, "/v1/admin/sweep", q)
}

func send[R any](ctx context.Context, a Admin, path string, q any) (out R, err error) {
	rq, err := post(path, nil, q)
	if err != nil {
		return out, err
	}
	_, err = a.c.json(ctx, rq, &out)
	return out, err
}
