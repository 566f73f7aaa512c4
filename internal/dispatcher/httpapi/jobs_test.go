package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

func TestRunReturnsTheResult(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for code, want := range map[string]job.Outcome{"hello": job.Succeeded, "fail": job.Failed} {
		var r job.Result
		f.want(http.StatusOK, &r, "POST", "/v1/run", python(code)) // a failing program is a 200
		if r.Outcome != want || r.Stdout.Text != code || r.ID == "" {
			t.Errorf("%s: got %+v", code, r)
		}
	}
}

func TestRunThatOutlastsItsWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var a api.Accepted
	resp := f.want(http.StatusAccepted, &a, "POST", "/v1/run?wait=50ms", python("hang"))
	if resp.Header.Get("Location") != a.URL || a.URL != "/v1/jobs/"+string(a.ID) {
		t.Errorf("got %+v at %q", a, resp.Header.Get("Location"))
	}
	var j job.Job
	for j.State != job.Running { // on a busy machine it may not have started
		f.want(http.StatusOK, &j, "GET", a.URL, "")
	}
	var canceled api.Accepted
	f.want(http.StatusOK, &canceled, "POST", a.URL+"/cancel", "")
	if canceled.State != job.Running {
		t.Errorf("state %s, want running: it is being stopped", canceled.State)
	}
	var r job.Result
	f.want(http.StatusOK, &r, "GET", a.URL+"/result?wait=10s", "")
	if r.Outcome != job.OutcomeCanceled || r.State != job.Canceled {
		t.Errorf("got %+v", r)
	}
}

func TestAcceptedJobIsComplete(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var a api.Accepted
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", `{"name":"n","labels":{"a":"b"},"program":{"python":{"code":"1"}},"policy":{"memory":"64Mi"}}`)
	var j job.Job
	f.want(http.StatusOK, &j, "GET", a.URL+"?wait=10s", "")
	p, err := policy.Parse(j.Spec.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if p.Memory != 64*job.MiB || p.Wall.D() != 30*time.Second || !strings.Contains(string(j.Spec.Policy), `"open_files"`) {
		t.Errorf("the policy is not the whole one: %s", j.Spec.Policy)
	}
	if j.Spec.Image != "python" || j.Spec.Name != "n" || j.Spec.Labels["a"] != "b" {
		t.Errorf("got %+v", j.Spec)
	}
}

func TestWaitEndsWithTheJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var first api.Accepted
	f.want(http.StatusCreated, &first, "POST", "/v1/batches", `{"jobs":[`+python("late")+`]}`, "Content-Type", "application/json", "X", "y")
	_ = first
	bs, err := f.store.Batches(t.Context(), "", "", 1)
	if err != nil || len(bs) != 1 {
		t.Fatal(err, bs)
	}
	done := make(chan job.Batch, 1)
	go func() {
		var b job.Batch
		f.want(http.StatusOK, &b, "GET", "/v1/batches/"+string(bs[0].ID)+"?wait=30s", "")
		done <- b
	}()
	start := time.Now()
	f.runner.release()
	if b := testenv.Receive(t, "the batch", done); b.Counts[job.Finished] != 1 || time.Since(start) > 15*time.Second {
		t.Errorf("got %+v after %s", b, time.Since(start))
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var first, again api.Accepted
	f.want(http.StatusCreated, &first, "POST", "/v1/jobs", python("a"), "Idempotency-Key", "k1")
	resp := f.want(http.StatusCreated, &again, "POST", "/v1/jobs", python("a"), "Idempotency-Key", "k1")
	if again.ID != first.ID || resp.Header.Get(api.HeaderReplayed) != "true" {
		t.Errorf("said twice: %s and %s, replayed %q", first.ID, again.ID, resp.Header.Get(api.HeaderReplayed))
	}
	var p api.ProblemDetails
	f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/jobs", python("b"), "Idempotency-Key", "k1")
	if !strings.HasSuffix(p.Type, "/key-used") {
		t.Errorf("another body under the same key: %+v", p)
	}
	var r job.Result
	resp = f.want(http.StatusOK, &r, "POST", "/v1/run", python("a"), "Idempotency-Key", "k2")
	if resp.Header.Get(api.HeaderReplayed) != "" {
		t.Error("a new run is said to be an old one")
	}
	var r2 job.Result
	resp = f.want(http.StatusOK, &r2, "POST", "/v1/run", python("a"), "Idempotency-Key", "k2")
	if r2.ID != r.ID || resp.Header.Get(api.HeaderReplayed) != "true" {
		t.Errorf("run twice: %s and %s", r.ID, r2.ID)
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var r job.Result
	f.want(http.StatusOK, &r, "POST", "/v1/run", python("artifact"))
	var list api.ArtifactList
	f.want(http.StatusOK, &list, "GET", "/v1/jobs/"+string(r.ID)+"/artifacts", "")
	if len(list.Artifacts) != 1 || list.Artifacts[0].URL != "/v1/jobs/"+string(r.ID)+"/artifacts/workspace/out/a%20b.html" || list.Artifacts[0].Object != "" {
		t.Fatalf("got %+v", list)
	}
	resp, body := f.do("GET", list.Artifacts[0].URL, "")
	h := resp.Header
	if body != "<script>alert(1)</script>" || resp.StatusCode != http.StatusOK {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html", "X-Content-Type-Options": "nosniff", "Content-Disposition": `attachment; filename="a b.html"`,
		"ETag": `"sha256:` + list.Artifacts[0].SHA256 + `"`, "Content-Security-Policy": "sandbox; default-src 'none'",
	} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
	if resp, _ := f.do("GET", list.Artifacts[0].URL, "", "If-None-Match", h.Get("ETag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("a copy that is current: %d", resp.StatusCode)
	}
	f.want(http.StatusNotFound, nil, "GET", "/v1/jobs/"+string(r.ID)+"/artifacts/etc/passwd", "")
}

func TestUnknownThings(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := string(job.NewID())
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/jobs/" + id, 404}, {"GET", "/v1/jobs/" + id + "/result", 404}, {"POST", "/v1/jobs/" + id + "/cancel", 404},
		{"GET", "/v1/jobs/" + id + "/artifacts", 404}, {"GET", "/v1/batches/" + id, 404}, {"GET", "/v1/batches/" + id + "/results", 404},
		{"GET", "/v1/batches/" + id + "/events", 404}, {"POST", "/v1/batches/" + id + "/cancel", 404}, {"POST", "/v1/batches/" + id + "/retry", 404},
		{"GET", "/v1/policies/nope", 404}, {"HEAD", "/v1/blobs/sha256:" + strings.Repeat("0", 64), 404},
		{"GET", "/v1/jobs/nonsense", 422}, {"GET", "/v1/batches/nonsense?wait=1s", 422}, {"HEAD", "/v1/blobs/md5:00", 422},
		{"GET", "/v1/jobs/" + id + "?wait=soon", 422}, {"GET", "/v1/batches?limit=0", 422}, {"GET", "/v1/batches?before=x", 422},
		{"GET", "/v1/nothing", 404}, {"DELETE", "/v1/jobs/" + id, 404}, {"PUT", "/v1/jobs/" + id, 405},
	} {
		resp, body := f.do(c.method, c.path, "")
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, resp.StatusCode, body, c.status)
		}
	}
}

// Objects that retention removed are gone (410), not unknown.
func TestForgottenThings(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"jobs":[`+python("1")+`]}`)
	at := "/v1/batches/" + string(b.ID)
	f.want(http.StatusOK, nil, "GET", at+"?wait=30s", "")
	id := string(job.FirstIDAt(time.Now().Add(-time.Hour))) // such an id may have existed
	f.want(http.StatusNotFound, nil, "GET", "/v1/batches/"+id, "")
	if n, err := f.store.Forget(t.Context(), 0); err != nil || n.Batches != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	for _, path := range []string{at, at + "/results", "/v1/batches/" + id, "/v1/jobs/" + id, "/v1/jobs/" + id + "/result"} {
		resp, body := f.do("GET", path, "")
		if resp.StatusCode != http.StatusGone || !strings.Contains(body, "problems/gone") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	f.want(http.StatusGone, nil, "POST", at+"/retry", "")
	f.want(http.StatusNotFound, nil, "GET", "/v1/batches/"+string(job.NewID()), "")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.want(http.StatusOK, nil, "GET", "/healthz", "")
	for _, queue := range []string{"ok", "unavailable"} { // jobs wait but are accepted
		f.runner.down.Store(queue != "ok")
		var ready map[string]string
		f.want(http.StatusOK, &ready, "GET", "/readyz", "")
		if ready["status"] != "ok" || ready["queue"] != queue {
			t.Errorf("got %v, the queue is %s", ready, queue)
		}
	}
	_, body := f.do("GET", "/openapi.json", "")
	if !json.Valid([]byte(body)) || !strings.Contains(body, `"openapi": "3.`) {
		t.Errorf("got %.80s", body)
	}
	f.store.Close() // the database is gone
	f.want(http.StatusOK, nil, "GET", "/healthz", "")
	if resp := f.want(http.StatusServiceUnavailable, nil, "GET", "/readyz", ""); resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	var p api.ProblemDetails
	f.want(http.StatusServiceUnavailable, &p, "POST", "/v1/jobs", python("a")) // no false success
}

// hung is a store that does not answer.
type hung struct{ store.Store }

func (hung) Ping(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A store that does not answer leaves a dispatcher unready before the timeout of a probe.
func TestReadyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Store = hung{c.Store} })
	start := time.Now()
	resp, body := f.do("GET", "/readyz", "")
	checkProblem(t, resp, body, http.StatusServiceUnavailable, "", 0)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the answer took %v", took)
	}
}

func TestCancelByLabel(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hang := func(label string) string {
		return `{"labels":{"run":"` + label + `"},"program":{"python":{"code":"hang"}}}`
	}
	f.runner.hold() // the first two are dispatched at once, the others are queued
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", hang("7"))
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", hang("8"))
	f.until("both run", func() bool { return f.runner.hangs() == 2 })
	f.want(http.StatusCreated, nil, "POST", "/v1/batches", `{"labels":{"run":"7"},"jobs":[`+python("a")+`,`+python("b")+`]}`)
	got, err := f.client().CancelLabeled(t.Context(), map[string]string{"run": "7"})
	if want := (api.CancelReport{Canceled: 2, Stopping: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	f.until("one is told to stop", func() bool { return f.runner.hangs() == 1 })
	for _, body := range []string{`{}`, `{"labels":{}}`, `{"labels":{"":"x"}}`, `{"labels":{"a":"\u0000"}}`, `{"labels":{"a":1}}`, `{"label":{"a":"b"}}`, `[]`, ``} {
		resp, text := f.do("POST", "/v1/jobs/cancel", body)
		if resp.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, resp.StatusCode, text)
		}
	}
}
