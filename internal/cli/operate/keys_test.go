package operate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/operate"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

const id = job.ID("01890a5d-ac96-774b-bcce-b302099a8057")

// run runs a command line against a fleet with one key of each kind. It returns stdout, stderr and the requests.
func run(t *testing.T, args ...string) (out, beside, asked string, err error) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	live := fleet.Key{ID: id, Name: "c\x1b[2Ji", Mark: "01234567", Tenant: "a", Role: "submitter", Label: "run=7", Policy: "strict", CreatedBy: "ops"}
	over, ended := live, live
	over.Name, over.RevokedAt, over.RevokedBy = "revoked-one", &past, "ops"
	ended.Name, ended.ExpiresAt = "expired-one", &past
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		var v any = over
		switch {
		case r.Method == http.MethodPost:
			var q api.KeyRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			asked += " " + q.Name + " " + q.Tenant + " " + q.Role + " " + q.For.D().String() + " " + q.Label + " " + q.Policy + " " + q.Reason
			v = api.NewKey{Key: live, Token: "assay_x"}
		case r.Method == http.MethodGet:
			v = api.KeyList{Keys: []fleet.Key{live, over, ended}}
		}
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(v)
	}))
	defer srv.Close()
	var cmd operate.Keys
	p, err := kong.New(&cmd)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := p.Parse(args)
	if err != nil {
		return "", "", "", err
	}
	var o, e strings.Builder
	err = parsed.Run(&operate.KeysEnv{Ctx: t.Context(), Out: &o, Err: &e, Client: func() (*client.Client, error) { return client.New(srv.URL) }})
	return o.String(), e.String(), asked, err
}

func TestKeysOfTheCommandLine(t *testing.T) {
	t.Parallel()
	out, beside, asked, err := run(t, "create", "ci", "--tenant=a", "--role=reader", "--for=1h", "--label=run=7", "--policy=strict", "-m", "why")
	if err != nil || out != "assay_x\n" || !strings.Contains(beside, string(id)) || asked != "POST /v1/keys ci a reader 1h0m0s run=7 strict why" {
		t.Errorf("create: %q, %q, %q, %v", out, beside, asked, err)
	}
	out, _, asked, err = run(t, "list", "--tenant=a")
	if err != nil || asked != "GET /v1/keys?tenant=a" || !strings.Contains(out, "run=7, policy strict") || strings.Contains(out, "-one") || strings.Contains(out, "\x1b") {
		t.Errorf("list: %q, %q, %v", out, asked, err)
	}
	out, _, _, err = run(t, "list", "--all")
	if err != nil || !strings.Contains(out, "revoked 2") || !strings.Contains(out, "expired 2") {
		t.Errorf("list --all: %q, %v", out, err)
	}
	out, _, asked, err = run(t, "revoke", string(id), "-m", "it was lost")
	if err != nil || !strings.Contains(out, "revoked") || asked != "DELETE /v1/keys/"+string(id)+"?reason=it+was+lost" {
		t.Errorf("revoke: %q, %q, %v", out, asked, err)
	}
	for _, args := range [][]string{{"revoke", "x"}, {"create"}, {"create", "x", "--role=root"}} {
		if _, _, asked, err := run(t, args...); err == nil || asked != "" {
			t.Errorf("%v: %v after %q", args, err, asked)
		}
	}
}
