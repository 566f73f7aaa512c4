package httpapi_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// canary is in all data of tenant a, and must not reach other tenants.
const canary = "canary-of-a"

// owned has the objects of tenant a: values of path parameters by the preceding path segment.
type owned struct {
	of     map[string]string // by the first segment of a path
	blob   string
	hangs  job.ID            // a running job
	bodies map[string]string // by operation
	key    api.NewKey
}

// ownedByA creates an object of every kind.
func ownedByA(f *fleet, with string) owned {
	t := f.t
	t.Helper()
	a := f.client(client.WithToken(with))
	python := func(code string) job.Spec {
		return job.Spec{Name: canary, Labels: map[string]string{"run": canary}, Program: job.Program{Python: &job.Python{Code: code}}}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ended, err := a.Run(t.Context(), python("artifact"))
	must(err)
	hangs, err := a.Submit(t.Context(), python("hang"))
	must(err)
	batch, err := a.SubmitBatch(t.Context(), client.BatchOptions{Name: canary, Labels: map[string]string{"run": canary}},
		strings.NewReader(`{"name":"`+canary+`","program":{"python":{"code":"fail"}}}`+"\n"))
	must(err)
	_, err = a.Batch(t.Context(), batch.ID, 10*time.Second)
	must(err)
	must(a.PutPolicy(t.Context(), canary, []byte(`{"env":{"set":{"X":"`+canary+`"}}}`)))
	must(a.PutSecret(t.Context(), canary, canary))
	blob, _, err := f.objects.PutBlob(t.Context(), "a", strings.NewReader(canary), 1<<20)
	must(err)
	session := job.Session{ID: job.NewID(), Spec: job.SessionSpec{Name: canary}, State: job.SessionLive, Worker: "w1", CreatedAt: time.Now()}
	must(f.store.PutSession(t.Context(), "a", session, 0))
	must(f.store.PutExecute(t.Context(), store.Executed{Session: session.ID, ID: job.NewID(), Code: canary, Result: json.RawMessage(`{"value":"` + canary + `"}`)}))
	upload, _, err := f.store.OpenUpload(t.Context(), store.NewBatch{ID: job.NewID(), Tenant: "a", Name: canary}, nil)
	must(err)
	o := owned{blob: blob, hangs: hangs.ID, key: f.key(with, api.KeyRequest{Name: canary})}
	o.of = map[string]string{"jobs": string(ended.ID), "batches": string(batch.ID), "sessions": string(session.ID), "keys": string(o.key.Key.ID), "uploads": string(upload)}
	o.bodies = bodiesAboutA(o)
	return o
}

// bodiesAboutA returns bodies by operation. The operations would accept them if the objects were the caller's.
func bodiesAboutA(o owned) map[string]string {
	spec := func(more string) string { return `{"program":{"python":{"code":"1"}}` + more + `}` }
	return map[string]string{
		"run":            spec(`,"files":{"x":{"blob":"` + o.blob + `"}}`),
		"submitJob":      spec(`,"policy":"` + canary + `"`),
		"submitBatch":    `{"defaults":{"policy":{"env":{"secrets":{"X":"` + canary + `"}}}},"jobs":[` + spec("") + `]}`,
		"check":          `{"programs":[{"code":"1","policy":"` + canary + `"}]}`,
		"prioritizeJobs": `{"labels":{"run":"` + canary + `"},"priority":5}`,
		"cancelJobs":     `{"labels":{"run":"` + canary + `"}}`,
		"putBlob":        "something else",
		"putPolicy":      `{}`,
		"explainPolicy":  `"` + canary + `"`,
		"putSecret":      `{"value":"another"}`,
		"putTenant":      `{"weight":9}`,
		"makeLink":       `{"path":"/workspace/out/a b.html"}`,
		"openUpload":     `{"name":"x"}`,
		"putChunk":       spec("") + "\n",
		"sealUpload":     `{}`,
		"createKey":      `{"name":"x","tenant":"a"}`,

		"createSession": `{"policy":"` + canary + `"}`, "execute": `{"code":"1"}`, "putContext": `"x"`, "putVariable": `1`, "putFile": "x",
		"putFunctions": `{"functions":["f"]}`, "answerCall": `{"id":"` + string(job.NewID()) + `","value":1}`, "exportArtifacts": `{"paths":["/"]}`,
	}
}

// queriesAboutA returns further addresses of lists by operation.
func queriesAboutA(o owned) map[string][]string {
	q := url.QueryEscape
	return map[string][]string{
		"listJobs":     {"?batch=" + o.of["batches"], "?before=" + o.of["jobs"], "?label=" + q("run="+canary), "?limit=1000", "?tenant=a", "?tenant=*", "?name=" + canary},
		"listBatches":  {"?before=" + o.of["batches"], "?limit=1000", "?tenant=a", "?tenant=*", "?name_prefix=" + canary},
		"listSessions": {"?tenant=a", "?tenant=*", "?state=live", "?limit=1000"},
		"batchStates":  {"?id=" + o.of["batches"]},
		"listKeys":     {"?tenant=a", "?before=" + o.of["keys"]},
	}
}

// address fills a's objects into the path of an operation.
func (o owned) address(t *testing.T, path string) string {
	kind := strings.Split(path, "/")[2]
	name := canary
	if kind == "tenants" {
		name = "a"
	}
	return filled(t, path, map[string]string{"id": cmp.Or(o.of[kind], o.of["jobs"]), "other": o.of["batches"], "n": "0", "token": "none", "name": name, "digest": o.blob, "path": "workspace/out/a%20b.html", "stream": "stdout", "worker": "w1", "tenant": "a"})
}

// No operation gives access to another tenant's objects. The test calls each operation of the document on a's objects
// with another tenant's token. Responses must not contain a's data, and the data must not change. New operations are
// included automatically. An operation with an unknown body or parameter fails the test.
func TestNoOperationCrossesTenants(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "key-a=a,read-b=b:reader,sub-b=b,op-b=b:operator,root-b=b:admin,sub-c=c"))
	o := ownedByA(f, "key-a")
	puts := func(op *openapi3.Operation) bool { // creates an object of the caller under a name that a uses too
		return slices.Contains([]string{"putPolicy", "putSecret", "putBlob"}, op.OperationID)
	}
	ofFleet := func(op *openapi3.Operation) bool {
		return slices.Contains(op.Tags, "admin") || slices.Contains(op.Tags, "keys") || slices.Contains(op.Tags, "tenants")
	}
	for _, token := range []string{"read-b", "sub-b", f.key("sub-b", api.KeyRequest{Name: "of b"}).Token} {
		f.tryAll(o, token, func(op *openapi3.Operation) bool { return !puts(op) })
	}
	for _, token := range []string{"op-b", "root-b"} { // these see the fleet and its keys, but no jobs of other tenants
		f.tryAll(o, token, func(op *openapi3.Operation) bool { return !puts(op) && !ofFleet(op) })
	}
	f.tryAll(o, "sub-c", puts)
	f.cancelsNothing(o, "sub-b", "root-b")
	f.unchanged(o)
	// The search for the canary works.
	for _, path := range []string{"/v1/jobs", "/v1/batches", "/v1/sessions", "/v1/policies", "/v1/secrets", "/v1/keys", "/v1/jobs/" + o.of["jobs"] + "/result"} {
		if _, got := f.do("GET", path, "", "Authorization", "Bearer key-a"); !strings.Contains(got, canary) {
			t.Errorf("%s of a's own has no mark: %.300s", path, got)
		}
	}
}

// tryAll calls each selected operation.
func (f *fleet) tryAll(o owned, token string, chosen func(*openapi3.Operation) bool) {
	f.t.Helper()
	for path, item := range document(f.t).Paths.Map() {
		for method, op := range item.Operations() {
			if !chosen(op) || !strings.HasPrefix(path, "/v1/") { // other paths belong to no tenant
				continue
			}
			body, known := o.bodies[op.OperationID]
			if op.RequestBody != nil && !known && !slices.Contains(op.Tags, "admin") { // callers without an operator's token are rejected earlier
				f.t.Errorf("%s has a body, and is not tried: say in bodiesAboutA what would be taken of it", op.OperationID)
			}
			for _, query := range append(queriesAboutA(o)[op.OperationID], "") {
				if all := token == "op-b" || token == "root-b"; all && strings.Contains(query, "tenant=") {
					continue // operators see the tenants of jobs
				}
				f.try(o, token, method, path, query, body)
			}
		}
	}
}

// try sends a request and checks that the response has no data of a.
func (f *fleet) try(o owned, token, method, template, query, body string) {
	f.t.Helper()
	path := o.address(f.t, template) + query
	resp, got := f.do(method, path, body, "Authorization", "Bearer "+token)
	tell := func(what string) {
		f.t.Helper()
		f.t.Errorf("%s %s by %s: %d: %s: %.300s", method, path, token, resp.StatusCode, what, got)
	}
	for _, mark := range append(slices.Collect(maps.Values(o.of)), canary, "alert(1)", string(o.hangs)) {
		if strings.Contains(got, mark) && (resp.StatusCode < 400 || !strings.Contains(path+body, mark)) { // a problem may repeat the request
			tell("it has what is a's: " + mark)
		}
	}
	own := method == http.MethodPut && strings.Count(template, "/") == 3 // a name that the caller may use too
	if strings.Contains(template, "{") && resp.StatusCode < 400 && !own {
		tell("it is there")
	}
	if resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable {
		tell("it fails")
	}
}

// cancelsNothing sends every kind of bulk cancel and priority request with the tokens, and checks that a's jobs stay
// unchanged.
func (f *fleet) cancelsNothing(o owned, tokens ...string) {
	f.t.Helper()
	for _, token := range tokens {
		for _, body := range []string{`{"state":"running"}`, `{"batch":"` + o.of["batches"] + `"}`, `{"labels":{"x":"y"},"state":"running"}`} {
			var report api.CancelReport
			if f.want(http.StatusOK, &report, "POST", "/v1/jobs/cancel", body, "Authorization", "Bearer "+token); report.Canceled+report.Stopping != 0 {
				f.t.Errorf("%s by %s cancels %+v", body, token, report)
			}
		}
		for _, body := range []string{`{"batch":"` + o.of["batches"] + `","priority":9,"dry_run":true}`, `{"labels":{"x":"y"},"priority":9}`} {
			var report api.PriorityReport
			if f.want(http.StatusOK, &report, "POST", "/v1/jobs/priority", body, "Authorization", "Bearer "+token); report.Changed != 0 {
				f.t.Errorf("%s by %s changes %+v", body, token, report)
			}
		}
	}
}

// unchanged checks that a's objects are as before.
func (f *fleet) unchanged(o owned) {
	t := f.t
	t.Helper()
	if j, err := f.store.Job(t.Context(), "a", o.hangs); err != nil || j.State != job.Running {
		t.Errorf("a's job: %+v, %v", j, err)
	}
	if b, err := f.store.Batch(t.Context(), "a", job.ID(o.of["batches"])); err != nil || b.Outcomes[job.Failed] != 1 {
		t.Errorf("a's batch: %+v, %v", b, err)
	}
	if p, err := f.store.Policy(t.Context(), "a", canary, 0); err != nil || !strings.Contains(string(p), canary) {
		t.Errorf("a's policy: %s, %v", p, err)
	}
	if s, err := f.store.Secrets(t.Context(), "a"); err != nil || len(s) != 1 {
		t.Errorf("a's secrets: %v, %v", s, err)
	}
	if s, err := f.store.Session(t.Context(), "a", job.ID(o.of["sessions"])); err != nil || s.State != job.SessionLive {
		t.Errorf("a's session: %+v, %v", s, err)
	}
	if k, err := f.store.Key(t.Context(), "a", o.key.Key.ID); err != nil || k.RevokedAt != nil {
		t.Errorf("a's key: %+v, %v", k, err)
	}
	if code, p := f.send(o.key.Token, "GET", "/v1/jobs/"+string(o.hangs), nil); code != http.StatusOK {
		t.Errorf("a's key: %d %s", code, p.Detail)
	}
	if u, err := f.store.Upload(t.Context(), "a", job.ID(o.of["uploads"])); err != nil || u.NextChunk != 0 || u.Sealed {
		t.Errorf("a's upload: %+v, %v", u, err)
	}
	if bs, err := f.store.Batches(t.Context(), "a", "", 10); err != nil || len(bs) != 1 {
		t.Errorf("a's batches: %v", fmt.Sprint(len(bs), err))
	}
}
