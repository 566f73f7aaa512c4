package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// outputs records the result of a job with stored outputs. edit may change the result.
func (f *fleet) outputs(edit func(c store.Claimed, put func(stream string, step int, text string) *job.StoredOutput, r *job.Result)) job.ID {
	f.t.Helper()
	ctx := f.t.Context()
	nj := store.NewJob{ID: job.NewID(), Tenant: "default", Pool: "where no worker looks", Spec: []byte(python("x"))}
	_, d, err := f.store.SubmitJob(ctx, nj, store.Idempotency{}, 100)
	if err != nil || d == nil {
		f.t.Fatal(d, err)
	}
	cs, err := f.store.Claim(ctx, time.Minute, []store.Claim{{Ref: d.Ref, Worker: "byhand"}})
	if err != nil {
		f.t.Fatal(err)
	}
	res := job.Result{Outcome: job.Succeeded}
	edit(cs[0], func(stream string, step int, text string) *job.StoredOutput {
		key, err := object.OutputKey(cs[0].Tenant, cs[0].Job, cs[0].Lease, stream, step)
		if err != nil {
			f.t.Fatal(err)
		}
		info, err := f.objects.Put(ctx, key, strings.NewReader(text))
		if err != nil {
			f.t.Fatal(err)
		}
		return &job.StoredOutput{Bytes: info.Bytes, SHA256: info.SHA256, Object: key}
	}, &res)
	raw, err := json.Marshal(res)
	if err != nil {
		f.t.Fatal(err)
	}
	fin := store.Finish{LeaseRef: store.LeaseRef{Job: cs[0].Job, Lease: cs[0].Lease}, Worker: "byhand", Outcome: job.Succeeded, Result: raw}
	if got, err := f.store.Finish(ctx, []store.Finish{fin}); err != nil || got[0] != store.Recorded {
		f.t.Fatalf("%v, %v", got, err)
	}
	return nj.ID
}

func TestOutputsAreReadByRange(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	big := strings.Repeat("0123456789", 30_000)
	id := f.outputs(func(_ store.Claimed, put func(string, int, string) *job.StoredOutput, r *job.Result) {
		r.Stdout = job.Output{Text: "01…89", Bytes: int64(len(big)), Stored: put("stdout", object.WholeOutput, big)}
		r.Stderr = job.Output{Text: "small é", Bytes: 8}
		r.Steps = []job.StepResult{{Outcome: job.Succeeded}, {Outcome: job.Succeeded, Stderr: job.Output{Stored: put("stderr", 1, big+"!")}}}
	})
	at := "/v1/jobs/" + string(id) + "/output/"
	for _, c := range []struct {
		path, ranges string
		status       int
		want         string
		content      string
	}{
		{"stdout", "", 200, big, ""},
		{"stdout", "bytes=0-9", 206, "0123456789", "bytes 0-9/300000"},
		{"stdout", "bytes=299995-", 206, "56789", "bytes 299995-299999/300000"},
		{"stdout", "bytes=-3", 206, "789", "bytes 299997-299999/300000"},
		{"stdout", "bytes=100000-200000", 206, big[100000:200001], "bytes 100000-200000/300000"},
		{"stdout", "bytes=300000-", 416, "", "bytes */300000"},
		{"stderr", "", 200, "small é", ""},
		{"stderr", "bytes=1-4", 206, "mall", "bytes 1-4/8"},
		{"stdout?step=0", "", 200, "", ""},
		{"stderr?step=1", "", 200, big + "!", ""},
		{"stderr?step=1", "bytes=-1", 206, "!", "bytes 300000-300000/300001"},
		{"stderr?step=2", "", 404, "", ""},
		{"stderr?step=32", "", 422, "", ""},
		{"stderr?step=x", "", 422, "", ""},
	} {
		var header []string
		if c.ranges != "" {
			header = []string{"Range", c.ranges}
		}
		resp, body := f.do("GET", at+c.path, "", header...)
		if resp.StatusCode != c.status || c.status < 400 && body != c.want || resp.Header.Get("Content-Range") != c.content {
			t.Errorf("%s %s: %d, %d bytes, %q", c.path, c.ranges, resp.StatusCode, len(body), resp.Header.Get("Content-Range"))
		}
		if c.status == 200 && (resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8") {
			t.Errorf("%s: %v", c.path, resp.Header)
		}
	}
	resp, _ := f.do("GET", at+"stdout", "")
	if tag := resp.Header.Get("ETag"); tag == "" {
		t.Error("no ETag")
	} else if resp, _ := f.do("GET", at+"stdout", "", "If-None-Match", tag); resp.StatusCode != http.StatusNotModified {
		t.Errorf("a copy that is current: %d", resp.StatusCode)
	}
	f.want(http.StatusNotFound, nil, "GET", "/v1/jobs/"+string(job.NewID())+"/output/stdout", "")
}

// Binary output is served unchanged, also from the object store.
func TestBinaryOutputs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const bytes = "\x00a\xf0\xff\r\n\xed\xa0\x80"
	id := f.outputs(func(_ store.Claimed, put func(string, int, string) *job.StoredOutput, r *job.Result) {
		r.Stdout = job.Output{Text: strings.ToValidUTF8(bytes, "\ufffd"), Bytes: int64(len(bytes)), Binary: true, Base64: []byte(bytes)}
		r.Stderr = job.Output{Text: "\ufffd", Bytes: int64(len(bytes)), Binary: true, Stored: put("stderr", object.WholeOutput, bytes)}
	})
	for _, stream := range []string{"stdout", "stderr"} {
		resp, body := f.do("GET", "/v1/jobs/"+string(id)+"/output/"+stream, "")
		if resp.StatusCode != http.StatusOK || body != bytes || resp.Header.Get("Content-Type") != "application/octet-stream" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %q, %v", stream, resp.StatusCode, body, resp.Header)
		}
		if resp, body := f.do("GET", "/v1/jobs/"+string(id)+"/output/"+stream, "", "Range", "bytes=2-3"); resp.StatusCode != http.StatusPartialContent || body != bytes[2:4] {
			t.Errorf("%s: %d, %q", stream, resp.StatusCode, body)
		}
	}
}

// A worker's false record of an output gives access to no other object.
func TestOutputsOfAForgedRecord(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	secret := strings.Repeat("not yours ", 30_000)
	var victim *job.StoredOutput
	f.outputs(func(_ store.Claimed, put func(string, int, string) *job.StoredOutput, _ *job.Result) {
		victim = put("stdout", object.WholeOutput, secret)
	})
	id := f.outputs(func(_ store.Claimed, put func(string, int, string) *job.StoredOutput, r *job.Result) {
		own := put("stderr", object.WholeOutput, secret)
		other, short := *own, *own
		other.SHA256, short.Bytes = strings.Repeat("0", 64), 10
		r.Stdout.Stored, r.Stderr.Stored = victim, &other
		r.Steps = []job.StepResult{{Outcome: job.Succeeded, Stdout: job.Output{Stored: own}, Stderr: job.Output{Stored: &job.StoredOutput{}}}}
	})
	for _, path := range []string{"stdout", "stderr", "stdout?step=0", "stderr?step=0"} {
		if got, err := f.get("/v1/jobs/"+string(id)+"/output/"+path, []string{"Accept", "*/*"}); err == nil {
			t.Errorf("%s was served: %.40q", path, got)
		}
	}
}

// A page that is cut because of its size in bytes is not marked as the last, although it is shorter than requested and
// the batch has ended.
func TestPagesEndByTheirBytes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const n, size = 5, store.PageBytes * 3 / 8
	var jobs []store.NewJob
	for range n {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "default", Pool: "elsewhere", MaxAttempts: 1, Spec: []byte(python("x"))})
	}
	batch, err := f.store.SubmitBatch(t.Context(), store.NewBatch{ID: job.NewID(), Tenant: "default"}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := f.store.Schedule(t.Context(), []string{"elsewhere"}, n)
	if err != nil || len(ds) != n {
		t.Fatalf("%d scheduled, %v", len(ds), err)
	}
	for _, d := range ds {
		cs, err := f.store.Claim(t.Context(), time.Minute, []store.Claim{{Ref: d.Ref, Worker: "w"}})
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(job.Result{Stdout: job.Output{Text: strings.Repeat("x", size)}})
		fin := store.Finish{LeaseRef: store.LeaseRef{Job: d.Job, Lease: cs[0].Lease}, Worker: "w", BatchID: batch, Outcome: job.Succeeded, Result: raw}
		if got, err := f.store.Finish(t.Context(), []store.Finish{fin}); err != nil || got[0] != store.Recorded {
			t.Fatalf("%v, %v", got, err)
		}
	}
	cursor, total := "0", 0
	for pages, complete := 0, "false"; complete != "true"; pages++ {
		if pages > n {
			t.Fatal("no page is the last")
		}
		resp, body := f.do("GET", "/v1/batches/"+string(batch)+"/results?limit=100&after="+cursor, "")
		if resp.StatusCode != http.StatusOK || len(body) > store.PageBytes+2*size {
			t.Fatalf("%d, a page of %d bytes", resp.StatusCode, len(body))
		}
		total += strings.Count(body, "\n")
		cursor, complete = resp.Header.Get(api.HeaderCursor), resp.Header.Get(api.HeaderComplete)
		if complete == "true" != (total == n) {
			t.Errorf("page %d: complete is %s after %d of %d results", pages, complete, total, n)
		}
	}
}
