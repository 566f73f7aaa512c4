package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"

	"github.com/assay-run/assay/internal/admin"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxOperatorBody is the largest request of an operator, in bytes.
const maxOperatorBody = 256 << 10

type serve func(s *Server, w http.ResponseWriter, r *http.Request) error

// adminRoutes is what operators do by hand; nobody else may.
func adminRoutes() []route {
	out := []route{
		{"GET /v1/admin/actions", false, (*Server).listActions},
		{"GET /v1/admin/leader", false, asked(func(ctx context.Context, a *admin.Admin) (any, error) { return a.Leader(ctx) })},
		{"GET /v1/admin/version", false, asked(func(ctx context.Context, a *admin.Admin) (any, error) { return a.Versions(ctx) })},
		{"GET /v1/admin/workers/{worker}", false, (*Server).getWorker},
		{"POST /v1/admin/workers/{worker}/cordon", false, on("worker", (*admin.Admin).Cordon)},
		{"POST /v1/admin/workers/{worker}/uncordon", false, on("worker", (*admin.Admin).Uncordon)},
		{"POST /v1/admin/workers/{worker}/quarantine", false, on("worker", (*admin.Admin).Quarantine)},
		{"POST /v1/admin/workers/{worker}/unquarantine", false, on("worker", (*admin.Admin).Unquarantine)},
		{"POST /v1/admin/requeue", false, ordered((*admin.Admin).Requeue)},
		{"GET /v1/admin/pauses", false, asked(func(ctx context.Context, a *admin.Admin) (any, error) { return a.Pauses(ctx) })},
		{"POST /v1/admin/pause", false, ordered((*admin.Admin).Pause)},
		{"POST /v1/admin/resume", false, ordered((*admin.Admin).Resume)},
		{"GET /v1/admin/tenants/{tenant}", false, (*Server).getTenant},
		{"POST /v1/admin/tenants/{tenant}/override", false, on("tenant", (*admin.Admin).Override)},
		{"POST /v1/admin/tenants/{tenant}/restore", false, on("tenant", (*admin.Admin).Restore)},
		{"POST /v1/admin/verify", false, ordered((*admin.Admin).Verify)},
		{"POST /v1/admin/sweep", false, ordered((*admin.Admin).Sweep)},
	}
	for i := range out {
		out[i].serve = operatorsOnly(out[i].serve)
	}
	return out
}

// operatorsOnly refuses the others before it reads anything.
func operatorsOnly(f serve) serve {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		if !s.Auth.Operator(r) {
			return fmt.Errorf("%w: %s is for operators: their tokens are in ASSAY_OPERATOR_TOKENS", job.ErrRefused, r.URL.Path)
		}
		return f(s, w, r)
	}
}

// asked answers with what is found without being told more.
func asked(f func(context.Context, *admin.Admin) (any, error)) serve {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		found, err := f(r.Context(), s.admin)
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, found)
	}
}

// on reads what is asked for of what the path names, and answers with the record of the
// action.
func on[Q any](name string, f func(a *admin.Admin, ctx context.Context, who admin.Who, subject string, q Q) (*store.Action, error)) serve {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		return ordered(func(a *admin.Admin, ctx context.Context, who admin.Who, q Q) (*store.Action, error) {
			return f(a, ctx, who, r.PathValue(name), q)
		})(s, w, r)
	}
}

// ordered reads what is asked for, and answers with what came of it.
func ordered[Q, R any](f func(a *admin.Admin, ctx context.Context, who admin.Who, q Q) (*R, error)) serve {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		var q Q
		if err := readOperator(w, r, &q); err != nil {
			return err
		}
		out, err := f(s.admin, r.Context(), whoOf(r), q)
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, out)
	}
}

// readOperator reads a request; no body is an empty object.
func readOperator(w http.ResponseWriter, r *http.Request, into any) error {
	raw, err := readBytes(w, r, maxOperatorBody)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return job.Decode([]byte("{}"), "", into)
	}
	if err := wantJSON(r); err != nil {
		return err
	}
	return job.Decode(raw, "", into)
}

// whoOf says who sent r. The beginning of a token's hash tells the tokens of one tenant
// apart, and is of no use to who wants to guess one.
func whoOf(r *http.Request) admin.Who {
	who := admin.Who{Name: tenantOf(r)}
	if token, ok := bearer(r); ok {
		sum := sha256.Sum256([]byte(token))
		who.Token = hex.EncodeToString(sum[:4])
	}
	return who
}

func (s *Server) listActions(w http.ResponseWriter, r *http.Request) error {
	q := store.ActionQuery{Before: job.ID(r.URL.Query().Get("before")), Subject: r.URL.Query().Get("subject")}
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return job.Invalid("limit", "%.20q must be a number, 1 or more", text)
		}
		q.Limit = n
	}
	if q.Before != "" {
		id, err := job.ParseID(string(q.Before))
		if err != nil {
			return job.Invalid("before", "%.80q is not the id of an action", q.Before)
		}
		q.Before = id
	}
	found, err := s.admin.Actions(r.Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, found)
}

func (s *Server) getWorker(w http.ResponseWriter, r *http.Request) error {
	found, err := s.admin.Worker(r.Context(), r.PathValue("worker"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, found)
}

func (s *Server) getTenant(w http.ResponseWriter, r *http.Request) error {
	found, err := s.admin.Tenant(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, found)
}
