package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// shared returns a fleet with tenants a and b, an operator and an admin.
func shared(t *testing.T) *fleet {
	t.Helper()
	gate, err := identity.ReadTokens("of-a=a,of-b=b,of-ops=ops:operator,of-root=ops:admin")
	if err != nil {
		t.Fatal(err)
	}
	return newFleet(t, func(c *parts) { c.Auth = gate })
}

// An admin's grant applies at once and has a version. A concurrent change of it is rejected. Callers below operator see
// only their own tenant.
func TestTenantsLive(t *testing.T) {
	t.Parallel()
	f := shared(t)
	ctx := t.Context()
	root, ops, a := f.client(client.WithToken("of-root")), f.client(client.WithToken("of-ops")), f.client(client.WithToken("of-a"))
	if got, err := a.Tenant(ctx, "a"); err != nil || got.Tenant.Version != 0 || got.Tenant.Weight != 1 {
		t.Errorf("before: %+v, %v", got, err)
	}
	now, err := root.PutTenant(ctx, "a", api.TenantGrant{Weight: 2, MaxRunning: 4, Ceiling: json.RawMessage(`{"memory": "64Mi"}`), Reason: "a smaller one"}, 0)
	if err != nil || now.Version != 1 || now.MaxRunning != 4 || string(now.Ceiling) != `{"memory":"64Mi"}` {
		t.Fatalf("%+v, %v", now, err)
	}
	if _, err := root.PutTenant(ctx, "a", api.TenantGrant{Weight: 3}, 0); !errors.Is(err, job.ErrStale) {
		t.Errorf("from a version that is over: %v", err)
	}
	end := time.Now().Add(2 * time.Second)
	for err = nil; err == nil; {
		if err = a.PutPolicy(ctx, "large", json.RawMessage(`{"memory":"128Mi"}`)); err == nil && time.Now().After(end) {
			t.Fatal("the ceiling does not hold after two seconds")
		}
	}
	if !errors.Is(err, job.ErrRefused) && !errors.Is(err, job.ErrInvalid) {
		t.Error(err)
	}
	for name, c := range map[string]*client.Client{"an operator": ops, "a submitter": a} {
		if _, err := c.PutTenant(ctx, "a", api.TenantGrant{Weight: 100}, -1); !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]api.TenantGrant{
		"weight": {Weight: -1}, "max_running": {MaxRunning: -1}, "label_caps": {LabelCaps: job.LabelCaps{"x": 0}}, "ceiling.memory": {Ceiling: json.RawMessage(`{"memory":"1Ki"}`)}, "reason": {Reason: strings.Repeat("x", 2000)},
	} {
		var field *job.FieldError
		if _, err := root.PutTenant(ctx, "a", bad, -1); !errors.As(err, &field) || !strings.HasPrefix(field.Field, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if resp, body := f.do(http.MethodPut, "/v1/tenants/a", `{}`, "Authorization", "Bearer of-root", "Content-Type", "application/json", "If-Match", "soon"); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a version that is none: %d %s", resp.StatusCode, body)
	}
	if all, err := ops.Tenants(ctx); err != nil || len(all) < 1 || all[0].Tenant.Name != "a" {
		t.Errorf("an operator lists %+v, %v", all, err)
	}
	if own, err := a.Tenants(ctx); err != nil || len(own) != 1 || own[0].Tenant.Name != "a" {
		t.Errorf("a tenant lists %+v, %v", own, err)
	}
	if _, err := f.client(client.WithToken("of-b")).Tenant(ctx, "a"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("another's tenant: %v", err)
	}
}

// Actions list the actor, its address, and the values before and after. They can be queried and streamed.
func TestActionsAreFollowed(t *testing.T) {
	t.Parallel()
	f := shared(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	a, ops := f.client(client.WithToken("of-a")), f.client(client.WithToken("of-ops")).Admin()
	for _, policy := range []string{`{"memory":"64Mi"}`, `{"memory":"128Mi"}`} {
		if err := a.PutPolicy(ctx, "p", json.RawMessage(policy)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.PutSecret(ctx, "s", "the value itself"); err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteSecret(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.CancelLabeled(ctx, map[string]string{"run": "7"}); err != nil {
		t.Fatal(err)
	}
	if err := f.client(client.WithToken("of-b")).PutPolicy(ctx, "p", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	page, err := ops.Actions(ctx, store.ActionQuery{Tenant: "a", Limit: 2})
	if err != nil || len(page.Actions) != 2 || page.Next == "" || page.Actions[0].Action != "cancel many" || page.Actions[1].Action != "delete secret" {
		t.Fatalf("%+v, %v", page, err)
	}
	var got []string
	for x, err := range ops.Follow(ctx, store.ActionQuery{Tenant: "a"}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if x.Actor != "a" || len(x.Token) != 8 || !strings.HasPrefix(x.Remote, "127.0.0.1") || strings.Contains(string(x.After)+string(x.Before)+string(x.Detail), "the value") {
			t.Errorf("%+v", x)
		}
		if got = append(got, x.Action); len(got) == 2 && string(x.Before) != `{"version":1,"policy":{"memory":"64Mi"}}` {
			t.Errorf("the policy was %s", x.Before)
		}
		if len(got) == 5 { // new ones follow live
			if err := a.PutPolicy(ctx, "p", json.RawMessage(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == 6 {
			break
		}
	}
	if want := "put policy, put policy, put secret, delete secret, cancel many, put policy"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	for path, want := range map[string]int{"/v1/admin/actions?since=soon": 422, "/v1/admin/actions/events?until=soon": 422, "/v1/admin/actions?actor=a&action=put+secret&since=2026-01-01T00:00:00Z": 200} {
		if resp, body := f.do(http.MethodGet, path, "", "Authorization", "Bearer of-ops"); resp.StatusCode != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	long := strings.Repeat("192.0.2.1, ", 50)
	if resp, body := f.do(http.MethodPut, "/v1/policies/q", `{}`, "Authorization", "Bearer of-a", "Content-Type", "application/json", "X-Forwarded-For", long+"203.0.113.7"); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	page, err = ops.Actions(ctx, store.ActionQuery{Subject: "q"})
	if err != nil || len(page.Actions) != 1 || !strings.HasSuffix(page.Actions[0].Remote, "203.0.113.7)") || len(page.Actions[0].Remote) > 300 {
		t.Errorf("behind a proxy: %+v, %v", page, err)
	}
	if _, err := a.Admin().Actions(ctx, store.ActionQuery{}); !errors.Is(err, job.ErrRefused) {
		t.Errorf("a tenant: %v", err)
	}
}
