package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/store"
)

// TestTenantsAreBounded: a tenant over a limit gets a 429 with the limit and its value, and the other tenant is served.
// On c877d6f 256 requirement classes of one tenant caused a 503 for everyone.
func TestTenantsAreBounded(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{})
	f.runner.hold()
	err := f.store.PutTenant(t.Context(), store.Tenant{Name: "mean", Weight: 1, Ceiling: json.RawMessage(`{"batches":2,"classes":3}`)})
	if err != nil {
		t.Fatal(err)
	}
	needs := func(i int) string {
		return fmt.Sprintf(`{"program":{"python":{"code":"1"}},"requires":{"x":"%d"},"policy":{"enforce":"report"}}`, i)
	}
	submit := func(token, path, body, kind string) (int, api.ProblemDetails) {
		return f.send(token, "POST", path, strings.NewReader(body), "Content-Type", kind)
	}
	refused := func(what, field, value string, code int, p api.ProblemDetails) {
		t.Helper()
		if code != http.StatusTooManyRequests || len(p.Errors) != 1 || p.Errors[0].Field != field || !strings.Contains(p.Detail, value) {
			t.Errorf("%s: %d %+v", what, code, p)
		}
	}
	for i := range 3 {
		if code, p := submit("of-mean", "/v1/jobs", needs(i), api.JSON); code != http.StatusCreated {
			t.Fatalf("need %d: %d %s", i, code, p.Detail)
		}
	}
	code, p := submit("of-mean", "/v1/jobs", needs(3), api.JSON)
	refused("a fourth need", "classes", "3 different needs", code, p)
	code, p = submit("of-mean", "/v1/batches", needs(0)+"\n"+needs(4)+"\n", api.NDJSON)
	refused("among lines", "classes", "3 different needs", code, p)
	if code, p := submit("of-mean", "/v1/jobs", needs(2), api.JSON); code != http.StatusCreated {
		t.Errorf("a need that it has: %d %s", code, p.Detail)
	}
	for range 2 {
		if code, p := submit("of-mean", "/v1/batches", lines(1), api.NDJSON); code != http.StatusCreated {
			t.Fatalf("batch: %d %s", code, p.Detail)
		}
	}
	code, p = submit("of-mean", "/v1/batches", lines(1), api.NDJSON)
	refused("a third batch", "batches", "of the 2 that it may have", code, p)
	if code, p := submit("of-mean", "/v1/jobs", python("ok"), api.JSON); code != http.StatusCreated {
		t.Errorf("a job by itself: %d %s", code, p.Detail)
	}
	for i := range 4 {
		if code, p := submit("of-kind", "/v1/batches", needs(10+i)+"\n", api.NDJSON); code != http.StatusCreated {
			t.Errorf("the other tenant's need %d: %d %s", i, code, p.Detail)
		}
	}
	err = f.store.PutTenant(t.Context(), store.Tenant{Name: "full", Weight: 1, Ceiling: json.RawMessage(`{"requests_per_second":0.001}`)})
	if err != nil {
		t.Fatal(err)
	}
	if code, p := f.send("of-full", "GET", "/v1/batches", nil); code != http.StatusOK {
		t.Fatalf("the first request: %d %s", code, p.Detail)
	}
	resp, body := f.do("GET", "/v1/batches", "", "Authorization", "Bearer of-full")
	if resp.StatusCode != http.StatusTooManyRequests || len(resp.Header.Get("Retry-After")) < 3 || !strings.Contains(body, "0.001 requests a second") {
		t.Errorf("the second: %d, again after %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
}
