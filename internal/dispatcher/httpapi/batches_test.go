package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

const ndjson = "application/x-ndjson"

// lines returns an NDJSON batch of n jobs.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"job-%d","program":{"python":{"code":"%d"}}}`+"\n", i, i)
	}
	return b.String()
}

func TestBatchAsOneObject(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"name":"mine","labels":{"k":"v"},
		"defaults":{"labels":{"from":"defaults","own":"no"},"policy":{"memory":"64Mi","network":{"mode":"none"}}},
		"jobs":[{"labels":{"own":"yes"},"program":{"python":{"code":"a"}},"policy":{"wall":"5s"}},`+python("fail")+`]}`)
	if b.Total != 2 || b.Name != "mine" || b.Labels["k"] != "v" {
		t.Errorf("got %+v", b)
	}
	f.want(http.StatusOK, &b, "GET", "/v1/batches/"+string(b.ID)+"?wait=20s", "")
	if b.Outcomes[job.Succeeded] != 1 || b.Outcomes[job.Failed] != 1 || !b.Done() {
		t.Errorf("got %+v", b)
	}
	var results []job.Result
	for raw, err := range f.client().Results(t.Context(), b.ID, true) {
		var r job.Result
		if err != nil || json.Unmarshal(raw, &r) != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	i := slices.IndexFunc(results, func(r job.Result) bool { return r.Outcome == job.Succeeded })
	if len(results) != 2 || i < 0 || results[i].Labels["from"] != "defaults" || results[i].Labels["own"] != "yes" {
		t.Fatalf("got %+v", results)
	}
	var j job.Job
	f.want(http.StatusOK, &j, "GET", "/v1/jobs/"+string(results[i].ID), "")
	if p := string(j.Spec.Policy); !strings.Contains(p, `"memory":"64Mi"`) || !strings.Contains(p, `"wall":"5s"`) {
		t.Errorf("policy %s", p)
	}
}

// The caps of a batch reach the scheduler in both forms of the request.
func TestBatchWithCaps(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	caps := job.LabelCaps{"problem": 2}
	one := `{"labels":{"problem":"a"},"program":{"python":{"code":"1"}}}`
	var object job.Batch
	f.want(http.StatusCreated, &object, "POST", "/v1/batches", `{"label_caps":{"problem":2},"jobs":[`+one+`,`+one+`,`+one+`]}`)
	streamed, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{LabelCaps: caps}, strings.NewReader(one+"\n"+one+"\n"+one))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*job.Batch{&object, streamed} {
		if !maps.Equal(b.LabelCaps, caps) {
			t.Errorf("caps %v", b.LabelCaps)
		}
		f.want(http.StatusOK, b, "GET", "/v1/batches/"+string(b.ID)+"?wait=20s", "")
		if !b.Done() {
			t.Errorf("got %+v", b)
		}
	}
}

func TestBatchAsLines(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const n = 2500 // more than two chunks
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{Name: "lines", Labels: map[string]string{"a": "b"},
		Defaults: json.RawMessage(`{ "policy": {"memory": "64Mi"} }`)}, strings.NewReader(lines(n)))
	if err != nil {
		t.Fatal(err)
	}
	if b.Total != n || b.Name != "lines" || b.Labels["a"] != "b" {
		t.Errorf("got %+v", b)
	}
	names := map[string]int{}
	for raw, err := range f.client().Results(t.Context(), b.ID, true) {
		if err != nil {
			t.Fatal(err)
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		names[r.Name]++
	}
	if len(names) != n {
		t.Errorf("%d results, want %d", len(names), n)
	}
	for name, times := range names {
		if times != 1 {
			t.Errorf("%s came %d times", name, times)
		}
	}
}

func TestBatchKeepsItsOrderAndItsLastLine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var b job.Batch
	body := "\n" + strings.TrimSuffix(lines(3), "\n") // with an empty first line and no final newline
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", body, "Content-Type", ndjson)
	if b.Total != 3 || b.Counts[job.Queued] != 3 {
		t.Errorf("got %+v", b)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(lines(1500)))
	_ = w.Close()
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", z.String(), "Content-Type", ndjson, "Content-Encoding", "gzip")
	if b.Total != 1500 {
		t.Errorf("got %d jobs", b.Total)
	}
	f.want(http.StatusUnprocessableEntity, nil, "POST", "/v1/batches", lines(1), "Content-Type", ndjson, "Content-Encoding", "gzip")
	f.want(http.StatusUnprocessableEntity, nil, "POST", "/v1/jobs", python("a"), "Content-Encoding", "br")
}

// A decompression bomb is small when compressed.
func TestGzipBomb(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	zeros := make([]byte, 1<<20)
	for range 70 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	f.want(http.StatusRequestEntityTooLarge, nil, "POST", "/v1/batches", z.String(), "Content-Encoding", "gzip")
	f.empty()
}

func TestBatchIdempotency(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	for name, n := range map[string]int{"one chunk": 10, "streamed": 2100} {
		for _, digest := range []bool{true, false} {
			key := fmt.Sprint(name, digest)
			submit := func(body string) (*job.Batch, error) {
				if digest {
					return f.client().SubmitBatch(t.Context(), client.BatchOptions{Key: key}, strings.NewReader(body))
				}
				// As a stream: the server spools it to compute its hash.
				return f.client().SubmitBatch(t.Context(), client.BatchOptions{Key: key}, struct{ *bytes.Buffer }{bytes.NewBufferString(body)})
			}
			first, err := submit(lines(n))
			if err != nil {
				t.Fatal(err)
			}
			again, err := submit(lines(n))
			if err != nil || again.ID != first.ID || again.Total != int64(n) {
				t.Errorf("%s: said twice: %+v, %v", key, again, err)
			}
			if _, err := submit(lines(n + 1)); !errors.Is(err, job.ErrKeyUsed) {
				t.Errorf("%s: another body: %v", key, err)
			}
		}
	}
	page, err := f.store.Batches(t.Context(), "", "", 100)
	if err != nil || len(page) != 4 {
		t.Errorf("%d batches, want 4 (%v)", len(page), err)
	}
}

func TestContentDigestIsChecked(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	wrong := "sha-256=:" + strings.Repeat("A", 43) + "=:"
	for _, n := range []int{10, 2100} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/batches", lines(n), "Content-Type", ndjson, "Content-Digest", wrong)
		if !strings.HasSuffix(p.Type, "/digest-mismatch") {
			t.Errorf("got %+v", p)
		}
	}
	f.want(http.StatusUnprocessableEntity, nil, "POST", "/v1/batches", lines(1), "Content-Type", ndjson, "Content-Digest", "sha-256=:x:")
	f.empty()
}

func TestCursor(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(25)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.client().Batch(t.Context(), b.ID, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	cursor, seen := "0", map[string]bool{}
	for page := 0; ; page++ {
		resp, body := f.do("GET", fmt.Sprintf("/v1/batches/%s/results?limit=10&wait=5s&after=%s", b.ID, cursor), "")
		for line := range strings.Lines(body) {
			seen[line] = true
		}
		cursor = resp.Header.Get(api.HeaderCursor)
		if resp.Header.Get(api.HeaderComplete) == "true" {
			if page != 2 {
				t.Errorf("complete after page %d", page)
			}
			break
		}
	}
	if len(seen) != 25 {
		t.Errorf("%d different results", len(seen))
	}
	// The end can be requested again.
	resp, body := f.do("GET", fmt.Sprintf("/v1/batches/%s/results?after=%s", b.ID, cursor), "")
	if body != "" || resp.Header.Get(api.HeaderComplete) != "true" || resp.Header.Get(api.HeaderCursor) != cursor {
		t.Errorf("after the end: %q %v", body, resp.Header)
	}
}

func TestProgressEvents(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(50)))
	if err != nil {
		t.Fatal(err)
	}
	var got []*job.Batch
	for b, err := range f.client().Progress(t.Context(), b.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, b); len(got) == 1 {
			f.runner.release()
		}
	}
	if len(got) < 2 || got[0].Done() || !got[len(got)-1].Done() {
		t.Errorf("got %d events", len(got))
	}
}

func TestCancelAndRetryBatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(python("hang")+"\n"+python("fail")+"\n"+python("ok")))
	if err != nil {
		t.Fatal(err)
	}
	f.until("two have ended and one runs", func() bool {
		got, err := f.client().Batch(t.Context(), b.ID, 0)
		return err == nil && got.Counts[job.Finished] == 2 && got.Counts[job.Running] == 1 && f.runner.hangs() == 1
	})
	if _, err := f.client().RetryBatch(t.Context(), b.ID); !errors.Is(err, job.ErrConflict) {
		t.Errorf("retry of a batch that runs: %v", err)
	}
	var p api.ProblemDetails
	if f.want(http.StatusConflict, &p, "POST", "/v1/batches/"+string(b.ID)+"/retry", ""); strings.Contains(p.Title, "key") {
		t.Errorf("retry of a batch that runs: %+v", p)
	}
	if _, err := f.client().CancelBatch(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	done, err := f.client().Batch(t.Context(), b.ID, 20*time.Second)
	if err != nil || done.Counts[job.Canceled] != 1 || done.Counts[job.Finished] != 2 {
		t.Fatalf("got %+v, %v", done, err)
	}
	f.runner.hold()
	next, err := f.client().RetryBatch(t.Context(), b.ID)
	if next.RetryOf != b.ID {
		t.Errorf("retry of %q, want %s", next.RetryOf, b.ID)
	}
	if err != nil || next.ID == b.ID || next.Total != 2 {
		t.Errorf("retry: %+v, %v", next, err)
	}
	var list api.BatchList
	f.want(http.StatusOK, &list, "GET", "/v1/batches?limit=1", "")
	if len(list.Batches) != 1 || list.Batches[0].ID != next.ID || list.Next != next.ID {
		t.Errorf("got %+v", list)
	}
	n := 0
	for range f.client().Batches(t.Context()) {
		n++
	}
	if n != 2 {
		t.Errorf("%d batches", n)
	}
	list = api.BatchList{}
	f.want(http.StatusOK, &list, "GET", "/v1/batches?limit=1&before="+string(next.ID), "")
	if len(list.Batches) != 1 || list.Batches[0].ID != b.ID {
		t.Errorf("behind the first: %+v", list)
	}
	for _, before := range []string{"x", string(job.NewID())} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "GET", "/v1/batches?before="+before, "")
		if len(p.Errors) != 1 || p.Errors[0].Field != "before" {
			t.Errorf("before=%s: %+v", before, p)
		}
	}
}

// until polls, because the conditions have no events.
func (f *fleet) until(what string, ok func() bool) {
	f.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestLeaseOfABatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"lease":"1m","jobs":[`+python("a")+`]}`)
	if b.Lease.D() != time.Minute || time.Until(b.LeaseUntil) > time.Minute || b.LeaseUntil.IsZero() {
		t.Errorf("got %+v", b)
	}
	streamed, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{Lease: 90 * time.Second}, strings.NewReader(lines(2100)))
	if err != nil || streamed.Lease.D() != 90*time.Second || streamed.LeaseUntil.IsZero() {
		t.Errorf("got %+v, %v", streamed, err)
	}
	kept, err := f.client().KeepBatch(t.Context(), b.ID)
	if err != nil || !kept.LeaseUntil.After(b.LeaseUntil) {
		t.Errorf("kept until %v, before %v, %v", kept.LeaseUntil, b.LeaseUntil, err)
	}
	plain, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1)))
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := f.client().KeepBatch(t.Context(), plain.ID); err != nil || kept.Lease != 0 || !kept.LeaseUntil.IsZero() {
		t.Errorf("without a lease: %+v, %v", kept, err)
	}
	if _, err := f.client().KeepBatch(t.Context(), job.NewID()); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("of no batch: %v", err)
	}
	for _, bad := range []string{`"1s"`, `"25h"`, `"-1m"`, `"soon"`, `60`} {
		resp, text := f.do("POST", "/v1/batches", `{"lease":`+bad+`,"jobs":[`+python("a")+`]}`)
		if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, `"field":"lease"`) {
			t.Errorf("%s: %d %s", bad, resp.StatusCode, text)
		}
		resp, text = f.do("POST", "/v1/batches?lease="+strings.Trim(bad, `"`), lines(1), "Content-Type", ndjson)
		if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, `"field":"lease"`) {
			t.Errorf("%s: %d %s", bad, resp.StatusCode, text)
		}
	}
}

// Each way to wait for a batch renews its lease.
func TestWaitingKeepsTheLease(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	c := f.client()
	waits := map[string]func(id job.ID) error{
		"batch": func(id job.ID) error { _, err := c.Batch(t.Context(), id, time.Minute); return err },
		"results": func(id job.ID) error {
			for _, err := range c.Results(t.Context(), id, true) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"progress": func(id job.ID) error {
			for _, err := range c.Progress(t.Context(), id) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	done := make(chan error, len(waits))
	var batches []*job.Batch
	for name, wait := range waits {
		b, err := c.SubmitBatch(t.Context(), client.BatchOptions{Name: name, Lease: 5 * time.Second}, strings.NewReader(lines(1)))
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
		go func() { done <- wait(b.ID) }()
	}
	for _, b := range batches {
		f.until("the client waiting for "+b.Name+" is heard of more than once", func() bool {
			now, err := f.store.Batch(t.Context(), "", b.ID)
			return err == nil && now.LeaseUntil.Sub(b.LeaseUntil) > 2*time.Second
		})
	}
	f.runner.release()
	for range waits {
		if err := testenv.Receive(t, "the answer to a client that waits", done); err != nil {
			t.Error(err)
		}
	}
}

func TestAbandonedBatchIsLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{Lease: 5 * time.Second}, strings.NewReader(lines(3)))
	if err != nil {
		t.Fatal(err)
	}
	f.until("it is abandoned", func() bool {
		st, err := f.store.Reap(t.Context())
		return err == nil && st.BatchesAbandoned == 1
	})
	if _, err := f.client().KeepBatch(t.Context(), b.ID); !errors.Is(err, job.ErrLost) {
		t.Errorf("heard of too late: %v", err)
	}
	got, err := f.client().Batch(t.Context(), b.ID, time.Minute)
	if err != nil || !got.Abandoned || got.Counts[job.Canceled] != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
}
