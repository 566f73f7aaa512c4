package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// tenantRow is a tenant on the page.
type tenantRow struct {
	api.TenantStatus
	Paused bool
}

type tenantsPage struct {
	Tenants []tenantRow
	More    int
	Find    string
	List    bool // more than one, shown as a table
}

const tenantsShown = 200

func (s *Server) tenants(v *visit) error {
	p := tenantsPage{Find: v.r.URL.Query().Get("tenant")}
	found, err := v.tenantsFound(p.Find)
	if err != nil {
		return err
	}
	if p.List = p.Find == "" && len(found) > 1; len(found) > tenantsShown {
		p.More, found = len(found)-tenantsShown, found[:tenantsShown]
	}
	paused, err := v.pausedTenants()
	if err != nil {
		return err
	}
	for _, t := range found {
		p.Tenants = append(p.Tenants, tenantRow{t, slices.Contains(paused, t.Tenant.Name)})
	}
	return v.show("tenants", "Tenants", true, p)
}

// tenantsFound returns the tenants that the visitor may see, the busiest first. With a name, it returns only that
// tenant.
func (v *visit) tenantsFound(name string) ([]api.TenantStatus, error) {
	if name != "" {
		if !identity.ValidName(name) {
			return nil, fmt.Errorf("%w: %.80q is not the name of a tenant", job.ErrNotFound, name)
		}
		var one api.TenantStatus
		err := v.get("/v1/tenants/"+name, nil, &one)
		return []api.TenantStatus{one}, err
	}
	var all api.TenantList
	if err := v.get("/v1/tenants", nil, &all); err != nil {
		return nil, err
	}
	busy := func(t api.TenantStatus) int64 { return t.Queued + t.Dispatched + t.Running }
	slices.SortStableFunc(all.Tenants, func(a, b api.TenantStatus) int { return cmp.Compare(busy(b), busy(a)) })
	return all.Tenants, nil
}

// pausedTenants returns the names of paused tenants for operators, and nothing for other visitors.
func (v *visit) pausedTenants() (names []string, err error) {
	if v.who.Role < identity.Operator {
		return nil, nil
	}
	var list api.PauseList
	if err := v.get("/v1/admin/pauses", nil, &list); err != nil {
		return nil, err
	}
	for _, p := range list.Pauses {
		if p.Kind == "tenant" {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// grant changes the grant of a tenant unless it changed since the form was made.
var grant = action{Name: "Grant", Question: "Change the grant of tenant %s?", Note: "The change applies at once and permanently. The caps by label and the policy ceiling stay unchanged.", role: identity.Admin,
	fields: []field{{Name: "weight", Label: "Weight", Kind: "text", Hint: "share of the fleet under contention; usually 1"},
		{Name: "max_running", Label: "Most running jobs", Kind: "text", Hint: "0: no limit"}, reason, {Name: "version", Kind: "hidden"}},
	method: http.MethodPut, path: "/v1/tenants/%s", wrong: wrongGrant, load: loadGrant, send: sendGrant, stale: staleGrant, said: grantSaid}

// withGrant returns t with its granted values in place of an operator's override.
func withGrant(t store.Tenant) store.Tenant {
	if o := t.Override; o != nil {
		if o.Granted.Weight != nil {
			t.Weight = *o.Granted.Weight
		}
		if o.Granted.MaxRunning != nil {
			t.MaxRunning = *o.Granted.MaxRunning
		}
		if o.Granted.LabelCaps != nil {
			t.LabelCaps = *o.Granted.LabelCaps
		}
	}
	return t
}

func (v *visit) granted(name string) (store.Tenant, error) {
	found, err := v.tenantsFound(name)
	if err != nil {
		return store.Tenant{}, err
	}
	return withGrant(found[0].Tenant), nil
}

func loadGrant(v *visit, p *confirmPage) error {
	t, err := v.granted(p.Subject)
	if err != nil {
		return err
	}
	p.set("weight", strconv.FormatFloat(t.Weight, 'g', -1, 64))
	p.set("max_running", strconv.Itoa(t.MaxRunning))
	p.set("version", strconv.FormatInt(t.Version, 10))
	return nil
}

func wrongGrant(subject string, f url.Values) error {
	for _, name := range []string{"weight", "max_running"} {
		if strings.TrimSpace(f.Get(name)) == "" {
			return job.Invalid(name, "is required: the grant is replaced as a whole")
		}
	}
	return wrongOverride(subject, url.Values{"weight": f["weight"], "max_running": f["max_running"]})
}

func sendGrant(v *visit, subject string, f url.Values, rq *apiCall) error {
	now, err := v.granted(subject)
	if err != nil {
		return err
	}
	weight, _ := strconv.ParseFloat(strings.TrimSpace(f.Get("weight")), 64) // wrongGrant has checked it
	running, _ := strconv.Atoi(strings.TrimSpace(f.Get("max_running")))
	rq.Body = api.TenantGrant{Weight: weight, MaxRunning: running, LabelCaps: now.LabelCaps, Ceiling: now.Ceiling, Reason: f.Get("reason")}
	rq.Header.Set("If-Match", strconv.Quote(f.Get("version")))
	return nil
}

// staleGrant describes the concurrent change.
func staleGrant(v *visit, subject string) string {
	text := "This tenant has changed since this form was loaded: go back, and look again."
	var list api.ActionList
	if err := v.get("/v1/admin/actions", url.Values{"subject": {subject}, "action": {"put tenant"}, "limit": {"1"}}, &list); err == nil && len(list.Actions) == 1 {
		a := list.Actions[0]
		text = fmt.Sprintf("%s has changed this tenant at %s, after this form was loaded: go back, and look again.", display.Line(a.Actor, 80), display.Time(a.At))
	}
	return text
}

func grantSaid(subject string, raw []byte) string {
	var t store.Tenant
	_ = json.Unmarshal(raw, &t) // if this fails, the grant still changed
	running := "no limit of running jobs"
	if t.MaxRunning > 0 {
		running = fmt.Sprintf("at most %d running jobs", t.MaxRunning)
	}
	return fmt.Sprintf("%s is granted weight %g and %s now: version %d.", display.Line(subject, 80), withGrant(t).Weight, running, t.Version)
}
