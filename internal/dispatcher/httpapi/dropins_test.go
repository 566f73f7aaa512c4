package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/dropin"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/store"
)

const runCode = `{"language":"python","code":"print(1)"}`

// post sends a request that is not in the OpenAPI document. login is an optional user and password for the URL.
func (f *fleet) post(t *testing.T, path, login string) (status int, body string) {
	t.Helper()
	url := f.url + path
	if login != "" {
		url = strings.Replace(url, "://", "://"+login+"@", 1)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(runCode))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func dropIns(names ...string) func(*parts) { return func(p *parts) { p.DropIns = names } }

// Endpoints that are not enabled return 404.
func TestDropInsAreOff(t *testing.T) {
	t.Parallel()
	off, some := newFleet(t), newFleet(t, dropIns(dropin.Piston))
	for _, path := range []string{"/sandboxfusion/run_code", "/run_code", "/piston/api/v2/execute", "/code-judge/judge"} {
		if status, body := off.post(t, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := some.post(t, "/run_code", ""); status != http.StatusNotFound {
		t.Errorf("beside piston: %d %s", status, body)
	}
	if status, body := some.post(t, "/piston/api/v2/execute", ""); status != http.StatusUnprocessableEntity {
		t.Errorf("piston: %d %s", status, body)
	}
}

// A token may be a bearer token or, only on these routes, a password in the URL. The job belongs to its tenant.
func TestDropInsKnowTenants(t *testing.T) {
	t.Parallel()
	f := newFleet(t, dropIns(dropin.Names()...), func(p *parts) {
		auth, err := identity.ReadTokens("secret-a=team-a,secret-b=team-b")
		if err != nil {
			t.Fatal(err)
		}
		p.Auth = auth
	})
	for _, c := range []struct {
		path, login string
		status      int
	}{
		{"/sandboxfusion/run_code", "any:secret-a", 200}, {"/run_code", "any:secret-b", 200},
		{"/run_code", "", 401}, {"/run_code", "any:wrong", 401}, {"/run_code", "secret-a:", 401}, {"/v1/jobs", "any:secret-a", 401},
	} {
		if status, body := f.post(t, c.path, c.login); status != c.status {
			t.Errorf("%s as %q: %d %s, want %d", c.path, c.login, status, body, c.status)
		}
	}
	for _, tenant := range []string{"team-a", "team-b"} {
		page, err := f.store.BrowseJobs(t.Context(), tenant, store.JobQuery{Limit: 10})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Name != dropin.SandboxFusion {
			t.Errorf("jobs of %s: %+v, %v", tenant, page, err)
		}
	}
}

// These routes wait in cases that other routes reject: too many requests at once, or more per second than the tenant's
// quota.
func TestDropInsWaitToBeLetIn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, dropIns(dropin.SandboxFusion), func(p *parts) { p.Limits.Requests = 2 })
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: identity.DefaultTenant, Weight: 1, Ceiling: []byte(`{"requests_per_second":4}`)}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if status, body := f.post(t, "/sandboxfusion/run_code", ""); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took < time.Second {
		t.Errorf("12 requests of a tenant that may send 4 a second were answered in %v", took)
	}
}
