package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// The exports of a session belong to its tenant, and a worker's description of them gives access to nothing else. They
// disappear when the session is forgotten.
func TestExportsAreOfOneTenant(t *testing.T) {
	f, a, b := tenants(t)
	ctx := t.Context()
	put := func(key, text string) job.Artifact {
		info, err := f.objects.Put(ctx, key, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return job.Artifact{Object: key, Bytes: info.Bytes, SHA256: info.SHA256, MediaType: "text/plain"}
	}
	exports := func(tenant, text string, more ...job.Artifact) (job.ID, job.Artifact) {
		id := job.NewID()
		if err := f.store.PutSession(ctx, tenant, job.Session{ID: id, Worker: "w"}, 0); err != nil {
			t.Fatal(err)
		}
		key, err := object.ArtifactKey(tenant, id, object.FirstExport, "/out/f")
		if err != nil {
			t.Fatal(err)
		}
		kept := put(key, text)
		kept.Path = "/out/f"
		list, err := json.Marshal(job.Export{Artifacts: append([]job.Artifact{kept}, more...), Feedback: []string{"artifact too much"}})
		if err != nil {
			t.Fatal(err)
		}
		if key, err = object.ExportKey(tenant, id); err != nil {
			t.Fatal(err)
		}
		put(key, string(list))
		return id, kept
	}
	victim, secret := exports("a", "of a")
	secret.Path = "/victim"
	forged := secret
	forged.Path, forged.Object = "/forged", strings.Replace(secret.Object, "a/", "b/", 1)
	evil, _ := exports("b", "of b", secret, forged)
	if _, err := f.store.EndSession(ctx, victim, "w", job.Expired, "over"); err != nil {
		t.Fatal(err)
	}

	var list job.Export
	at := func(id job.ID, path string) string { return fmt.Sprintf("/v1/sessions/%s/artifacts%s", id, path) }
	f.want(http.StatusOK, &list, http.MethodGet, at(victim, ""), "", a...)
	if len(list.Artifacts) != 1 || list.Artifacts[0].URL != at(victim, "/out/f") || list.Artifacts[0].Object != "" || len(list.Feedback) != 1 {
		t.Errorf("list: %+v", list)
	}
	resp, body := f.do(http.MethodGet, at(victim, "/out/f"), "", a...)
	if body != "of a" || resp.Header.Get("Cache-Control") != "private, no-cache" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q %v", body, resp.Header)
	}
	resp, _ = f.do(http.MethodGet, at(victim, "/out/f"), "", append([]string{"If-None-Match", resp.Header.Get("ETag")}, a...)...)
	if resp.StatusCode != http.StatusNotModified {
		t.Errorf("a copy that is current: %d", resp.StatusCode)
	}
	for path, who := range map[string][]string{
		at(victim, ""): b, at(victim, "/out/f"): b, at(evil, ""): a, at(evil, "/victim"): b, at(evil, "/forged"): b, at(evil, "/none"): b,
		at(job.NewID(), ""): a,
	} {
		f.want(http.StatusNotFound, nil, http.MethodGet, path, "", who...)
	}

	if _, err := f.store.Forget(ctx, -time.Hour); err != nil {
		t.Fatal(err)
	}
	resp, body = f.do(http.MethodGet, at(victim, "/out/f"), "", a...)
	if resp.StatusCode != http.StatusGone && resp.StatusCode != http.StatusNotFound {
		t.Errorf("forgotten: %d %s", resp.StatusCode, body)
	}
}
