package httpapi

import (
	"context"
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxOperatorBody is the largest body of an operator's request, in bytes.
const maxOperatorBody = 256 << 10

type serve = func(w http.ResponseWriter, r *http.Request) error

// adminRoutes returns the routes for operators.
func (s *Server) adminRoutes() []web.Route {
	return []web.Route{
		web.At("GET /v1/admin/actions", identity.Operator, s.listActions),
		web.At("GET /v1/admin/actions/events", identity.Operator, s.actionEvents),
		web.At("GET /v1/admin/leader", identity.Operator, s.serveQuery(func(ctx context.Context, a *admin.Admin) (any, error) { return a.Leader(ctx) })),
		web.At("GET /v1/admin/why-slow", identity.Operator, s.whySlow),
		web.At("GET /v1/admin/version", identity.Operator, s.serveQuery(func(ctx context.Context, a *admin.Admin) (any, error) { return a.Versions(ctx) })),
		web.At("GET /v1/admin/workers/{worker}", identity.Operator, s.getWorker),
		web.At("POST /v1/admin/workers/cordon", identity.Operator, ordered(s, (*admin.Admin).CordonAll)),
		web.At("POST /v1/admin/workers/uncordon", identity.Operator, ordered(s, (*admin.Admin).UncordonAll)),
		web.At("POST /v1/admin/workers/{worker}/cordon", identity.Operator, on(s, "worker", (*admin.Admin).Cordon)),
		web.At("POST /v1/admin/workers/{worker}/uncordon", identity.Operator, on(s, "worker", (*admin.Admin).Uncordon)),
		web.At("POST /v1/admin/workers/{worker}/quarantine", identity.Operator, on(s, "worker", (*admin.Admin).Quarantine)),
		web.At("POST /v1/admin/workers/{worker}/unquarantine", identity.Operator, on(s, "worker", (*admin.Admin).Unquarantine)),
		web.At("POST /v1/admin/requeue", identity.Operator, ordered(s, (*admin.Admin).Requeue)),
		web.At("GET /v1/admin/pauses", identity.Operator, s.serveQuery(func(ctx context.Context, a *admin.Admin) (any, error) { return a.Pauses(ctx) })),
		web.At("POST /v1/admin/pause", identity.Operator, ordered(s, (*admin.Admin).Pause)),
		web.At("POST /v1/admin/resume", identity.Operator, ordered(s, (*admin.Admin).Resume)),
		web.At("GET /v1/admin/tenants/{tenant}", identity.Operator, s.getTenant),
		web.At("POST /v1/admin/tenants/{tenant}/override", identity.Operator, on(s, "tenant", (*admin.Admin).Override)),
		web.At("POST /v1/admin/tenants/{tenant}/restore", identity.Operator, on(s, "tenant", (*admin.Admin).Restore)),
		web.At("POST /v1/admin/tenants/{tenant}/export", identity.Admin, s.exportTenant),
		web.At("POST /v1/admin/tenants/{tenant}/import", identity.Admin, s.importTenant),
		web.At("GET /v1/admin/set-aside", identity.Operator, s.listAsides),
		web.At("POST /v1/admin/set-aside/{id}/retry", identity.Operator, on(s, "id", (*admin.Admin).RetryAside)),
		web.At("POST /v1/admin/set-aside/{id}/drop", identity.Operator, on(s, "id", (*admin.Admin).DropAside)),
		web.At("POST /v1/admin/verify", identity.Operator, ordered(s, (*admin.Admin).Verify)),
		web.At("POST /v1/admin/sweep", identity.Operator, ordered(s, (*admin.Admin).Sweep)),
	}
}

// serveQuery serves the result of a function without parameters.
func (s *Server) serveQuery(f func(context.Context, *admin.Admin) (any, error)) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		found, err := f(r.Context(), s.Admin)
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, found)
	}
}

// on decodes a request about the object that the path names, and responds with the recorded action.
func on[Q any](s *Server, name string, f func(a *admin.Admin, ctx context.Context, who admin.Actor, subject string, q Q) (*store.Action, error)) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		return ordered(s, func(a *admin.Admin, ctx context.Context, who admin.Actor, q Q) (*store.Action, error) {
			return f(a, ctx, who, r.PathValue(name), q)
		})(w, r)
	}
}

// ordered decodes a request and responds with its result.
func ordered[Q, R any](s *Server, f func(a *admin.Admin, ctx context.Context, who admin.Actor, q Q) (*R, error)) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		var q Q
		if err := readOperator(w, r, &q); err != nil {
			return err
		}
		out, err := f(s.Admin, r.Context(), whoOf(r), q)
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, out)
	}
}

// readOperator decodes a request. An empty body is an empty object.
func readOperator(w http.ResponseWriter, r *http.Request, into any) error {
	raw, err := web.ReadBytes(w, r, maxOperatorBody)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return job.Decode([]byte("{}"), "", into)
	}
	if err := web.WantJSON(r); err != nil {
		return err
	}
	return job.Decode(raw, "", into)
}

// whySlow responds with all possible causes of slowness in the fleet.
func (s *Server) whySlow(w http.ResponseWriter, r *http.Request) error {
	queue, err := s.queueNow(r.Context())
	if err != nil {
		return err
	}
	found, err := s.Admin.WhySlow(r.Context(), queue)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, found)
}

func (s *Server) getWorker(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Admin.Worker(r.Context(), r.PathValue("worker"))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, found)
}

func (s *Server) listAsides(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return err
	}
	var after job.ID
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = job.ParseID(text); err != nil {
			return job.Invalid("after", "%.80q is not an id of this list; take it from next", text)
		}
	}
	found, err := s.Admin.Asides(r.Context(), after, int(limit))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, found)
}

func (s *Server) getTenant(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Admin.Tenant(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, found)
}

// erase deletes the tenant's object that the path names, and responds with the recorded action.
func (s *Server) erase(f func(a *admin.Admin, ctx context.Context, who admin.Actor, tenant string, id job.ID) (*store.Action, error)) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := web.ID(r)
		if err != nil {
			return err
		}
		done, err := f(s.Admin, r.Context(), whoOf(r), web.Tenant(r), id)
		s.browse.Forget() // a failed deletion may have deleted a part
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, done)
	}
}
