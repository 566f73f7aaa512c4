package httpapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// tenants returns a fleet with tokens, and the headers of two clients.
func tenants(t *testing.T) (f *fleet, a, b []string) {
	t.Helper()
	auth, err := identity.ReadTokens("token-a=a,token-b=b")
	if err != nil {
		t.Fatal(err)
	}
	f = newFleet(t, func(c *parts) { c.Auth = auth })
	return f, []string{"Authorization", "Bearer token-a"}, []string{"Authorization", "Bearer token-b"}
}

// put uploads content as a blob.
func (f *fleet) put(digest, content string, who []string) *http.Response {
	f.t.Helper()
	resp, _ := f.do(http.MethodPut, "/v1/blobs/"+digest, content, append([]string{"Content-Type", "application/octet-stream"}, who...)...)
	return resp
}

func digestOf(content string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
}

// Knowing a digest gives no access unless the tenant has stored the bytes. On 5ee7338 HEAD returned 200 to the other
// tenant, and its jobs could read the content.
func TestBlobsBelongToTheirTenant(t *testing.T) {
	f, a, b := tenants(t)
	content := rand.Text()
	digest := digestOf(content)
	blob := "/v1/blobs/" + digest
	if resp := f.put(digest, content, a); resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}

	naming := fmt.Sprintf(`{"program":{"python":{"code":"ok"}},"files":{"/workspace/x":{"blob":%q}}}`, digest)
	never := strings.ReplaceAll(naming, digest, digestOf("never uploaded by anybody"))
	attacks := []struct {
		name, method, path, body string
		control                  string // the same request for a blob that does not exist
	}{
		{"head", http.MethodHead, blob, "", "/v1/blobs/" + digestOf("never uploaded by anybody")},
		{"get", http.MethodGet, blob, "", "/v1/blobs/" + digestOf("never uploaded by anybody")},
		{"job", http.MethodPost, "/v1/jobs", naming, never},
		{"run", http.MethodPost, "/v1/run", naming, never},
		{"batch", http.MethodPost, "/v1/batches", `{"jobs":[` + naming + `]}`, `{"jobs":[` + never + `]}`},
		{"defaults of a batch", http.MethodPost, "/v1/batches",
			fmt.Sprintf(`{"defaults":{"files":{"/workspace/x":{"blob":%q}}},"jobs":[%s]}`, digest, python("ok")),
			fmt.Sprintf(`{"defaults":{"files":{"/workspace/x":{"blob":%q}}},"jobs":[%s]}`, digestOf("never uploaded by anybody"), python("ok"))},
		{"wrong bytes", http.MethodPut, blob, "guess", "/v1/blobs/" + digestOf("never uploaded by anybody")},
		{"no bytes", http.MethodPut, blob, "", "/v1/blobs/" + digestOf("never uploaded by anybody")},
	}
	for _, at := range attacks {
		t.Run(at.name, func(t *testing.T) {
			who := b
			if at.method == http.MethodPut {
				who = append([]string{"Content-Type", "application/octet-stream"}, b...)
			}
			got, gotBody := f.do(at.method, at.path, at.body, who...)
			path, body := at.path, at.control
			if strings.HasPrefix(at.control, "/") {
				path, body = at.control, at.body
			}
			want, wantBody := f.do(at.method, path, body, who...)
			if got.StatusCode < 400 {
				t.Errorf("%d %s", got.StatusCode, gotBody)
			}
			unnamed := func(s string) string {
				return strings.NewReplacer(digest, "D", digestOf("never uploaded by anybody"), "D").Replace(s)
			}
			if got.StatusCode != want.StatusCode || unnamed(withoutID(gotBody)) != unnamed(withoutID(wantBody)) {
				t.Errorf("another tenant's: %d %s\nnobody's:         %d %s", got.StatusCode, gotBody, want.StatusCode, wantBody)
			}
		})
	}

	// A tenant with the bytes may store them, and does not learn that another tenant has.
	first, same := f.put(digestOf("new"), "new", b), f.put(digest, content, b)
	if same.StatusCode != first.StatusCode || len(same.Header) != len(first.Header) {
		t.Errorf("a PUT of what another tenant has: %d %v, of something new: %d %v", same.StatusCode, same.Header, first.StatusCode, first.Header)
	}
	f.want(http.StatusOK, nil, http.MethodHead, blob, "", b...)
	f.want(http.StatusCreated, nil, http.MethodPost, "/v1/jobs", naming, b...)
}

// withoutID removes the request's id from a problem.
func withoutID(body string) string {
	var m map[string]any
	if json.Unmarshal([]byte(body), &m) != nil {
		return body
	}
	delete(m, "request_id")
	delete(m, "instance")
	raw, _ := json.Marshal(m)
	return string(raw)
}

// A large inline file becomes a blob of its tenant only.
func TestInlineInputsBelongToTheirTenant(t *testing.T) {
	f, a, b := tenants(t)
	content := strings.Repeat("a secret of a\n", 10_000)
	spec, err := json.Marshal(job.Spec{
		Program: job.Program{Python: &job.Python{Code: "ok"}},
		Files:   map[string]job.File{"/workspace/x": {Text: &content}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.want(http.StatusCreated, nil, http.MethodPost, "/v1/jobs", string(spec), a...)
	blob := "/v1/blobs/" + digestOf(content)
	f.want(http.StatusOK, nil, http.MethodHead, blob, "", a...)
	if resp, _ := f.do(http.MethodHead, blob, "", b...); resp.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD by another tenant: %d", resp.StatusCode)
	}
}

// A tenant cannot change the content of another tenant's digest.
func TestBlobsOfTwoTenantsDoNotReplaceEachOther(t *testing.T) {
	f, a, b := tenants(t)
	const content = "shared"
	for _, who := range [][]string{a, b} {
		f.put(digestOf(content), content, who)
	}
	seen := map[string]bool{}
	for o, err := range f.objects.List(context.Background(), "blobs/") {
		if err != nil {
			t.Fatal(err)
		}
		seen[o.Key] = true
		r, _, err := f.objects.Get(t.Context(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(r); err != nil || got.String() != content {
			t.Errorf("%s: %q, %v", o.Key, got.String(), err)
		}
		_ = r.Close()
	}
	if len(seen) != 2 {
		t.Errorf("objects %v, want one of each tenant", seen)
	}
}

// Records come from workers. A compromised worker's record may name another tenant's object, or claim other bytes. Such
// records are rejected. On 5ee7338 both were served, with the claimed ETag.
func TestRecordsDoNotLeadToObjectsOfOthers(t *testing.T) {
	f, a, b := tenants(t)
	var of struct{ ID job.ID }
	f.want(http.StatusOK, &of, http.MethodPost, "/v1/run", python("artifact"), a...)
	raw, err := f.store.Result(t.Context(), "a", of.ID)
	if err != nil {
		t.Fatal(err)
	}
	var theirs job.Result
	if err := json.Unmarshal(raw, &theirs); err != nil {
		t.Fatal(err)
	}
	victim := theirs.Artifacts[0].Object
	blob, err := object.BlobKey("a", digestOf("input of a"))
	if err != nil {
		t.Fatal(err)
	}
	f.put(digestOf("input of a"), "input of a", a)

	nj := store.NewJob{ID: job.NewID(), Tenant: "b", Pool: "where no worker looks", Spec: []byte(python("x"))}
	_, d, err := f.store.SubmitJob(t.Context(), nj, store.Idempotency{}, 100)
	if err != nil || d == nil {
		t.Fatal(d, err)
	}
	cs, err := f.store.Claim(t.Context(), time.Minute, []store.Claim{{Ref: d.Ref, Worker: "evil"}})
	if err != nil {
		t.Fatal(err)
	}
	c := cs[0]
	leave := func(name, text string) job.Artifact { return f.runner.leave(t.Context(), c, name, text) }
	forged, honest, empty := leave("/forged", "these bytes"), leave("/honest", strings.Repeat("as it was ", 20_000)), leave("/empty", "")
	forged.SHA256, empty.SHA256 = honest.SHA256, honest.SHA256
	own, err := object.AttemptPrefix("b", c.Job, c.Lease)
	if err != nil {
		t.Fatal(err)
	}
	named := func(path, key string) job.Artifact {
		return job.Artifact{Path: path, Object: key, SHA256: honest.SHA256}
	}
	res := job.Result{Outcome: job.Succeeded, Artifacts: []job.Artifact{
		honest, forged, empty,
		named("/victim", victim), named("/blob", blob), named("/up", own+"../../../"+victim), named("/none", ""),
		named("/tenant", strings.Replace(own, "b/", "a/", 1)+"x"), named("/lease", own[:len(own)-1]+"0/x"),
	}}
	body, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	fin := store.Finish{LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, Worker: "evil", BatchID: c.BatchID, Outcome: job.Succeeded, Result: body}
	if got, err := f.store.Finish(t.Context(), []store.Finish{fin}); err != nil || got[0] != store.Recorded {
		t.Fatalf("%v, %v", got, err)
	}
	for _, art := range res.Artifacts {
		resp, err := f.get("/v1/jobs/"+string(c.Job)+"/artifacts"+art.Path, b)
		switch {
		case art.Path == "/honest" && (err != nil || resp != strings.Repeat("as it was ", 20_000)):
			t.Errorf("%s: %d bytes, %v", art.Path, len(resp), err)
		case art.Path != "/honest" && err == nil:
			t.Errorf("%s was served: %.80q", art.Path, resp)
		}
	}
}

// get downloads without contract checks, which cannot read aborted responses.
func (f *fleet) get(path string, who []string) (string, error) {
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set(who[0], who[1])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}
