package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// maxPolicyBody is the largest policy, in bytes.
const maxPolicyBody = 1 << 20

func (s *Server) listPolicies(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Store.Policies(r.Context(), web.Tenant(r))
	if err != nil {
		return fmt.Errorf("list policies: %w", err)
	}
	if found == nil {
		found = []store.StoredPolicy{}
	}
	return web.WriteJSON(w, http.StatusOK, api.PolicyList{Policies: found})
}

func (s *Server) getPolicy(w http.ResponseWriter, r *http.Request) error {
	name, version, err := policy.Version(r.PathValue("name"))
	if err != nil {
		return err
	}
	if err := heldPolicy(r, name); err != nil {
		return err
	}
	raw, err := s.Store.Policy(r.Context(), web.Tenant(r), name, version)
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	return web.WriteRaw(w, http.StatusOK, raw)
}

// putPolicy stores a policy. It validates the policy now, so that no job fails later because of it.
func (s *Server) putPolicy(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !identity.ValidName(name) {
		return job.Invalid("name", "%.80q must be 1 to 63 letters, digits, - and _", name)
	}
	raw, err := s.readPolicy(w, r)
	if err != nil {
		return err
	}
	if raw[0] != '{' {
		return job.Invalid("policy", "must be an object")
	}
	if _, err := s.Admit.Resolve(r.Context(), web.Tenant(r), raw); err != nil {
		return err
	}
	err = s.own(r, "put policy", name, func(a *store.Action) error { return s.Store.PutPolicy(r.Context(), a, web.Tenant(r), name, raw) })
	if err != nil {
		return err
	}
	return web.WriteRaw(w, http.StatusOK, raw)
}

// explainPolicy reports how a connected worker would enforce a policy, without running anything.
func (s *Server) explainPolicy(w http.ResponseWriter, r *http.Request) error {
	use := policy.Use(r.URL.Query().Get("program"))
	if !slices.Contains(policy.Uses, use) {
		return job.Invalid("program", "%.40q must be python, command, tests, session or shell, or left out", use)
	}
	raw, err := s.readPolicy(w, r)
	if err != nil {
		return err
	}
	p, err := s.Admit.Resolve(r.Context(), web.Tenant(r), raw)
	if err != nil {
		return err
	}
	out, err := explain(p, use, s.Workers.List())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// readPolicy reads a policy object, or a JSON string with the name of a stored policy.
func (s *Server) readPolicy(w http.ResponseWriter, r *http.Request) (json.RawMessage, error) {
	if err := web.WantJSON(r); err != nil {
		return nil, err
	}
	raw, err := web.ReadBody(w, r, maxPolicyBody)
	if err != nil {
		return nil, err
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil, job.Invalid("policy", "is empty")
	}
	if string(raw) == "null" {
		return nil, job.Invalid("policy", "must be an object or the name of a stored policy, not null; {} is the defaults")
	}
	return raw, nil
}

// explain plans p for the first worker that can enforce it for this kind of program. If none can, it returns the
// refusal of the first worker.
func explain(p policy.Policy, use policy.Use, hosts []fleet.Worker) (api.Explanation, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return api.Explanation{}, fmt.Errorf("encode policy: %w", err)
	}
	out := api.Explanation{Policy: raw, Enforcement: []job.Enforcement{}}
	if len(hosts) == 0 {
		return out, nil // there is only the policy to show
	}
	var refusal error
	for _, h := range hosts {
		plan, err := p.PlanFor(h.Host, use)
		if err == nil {
			out.Host, out.Enforcement = h.ID, plan.Enforcement
			return out, nil
		}
		refusal = err
	}
	out.Host, out.Enforcement, out.Refused = hosts[0].ID, policy.Explain(p, hosts[0].Host, use), refusal.Error()
	return out, nil
}
