package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Features of batches beyond their jobs, with real programs in real sandboxes: cached results,
// retries of failures, and jobs that end by their label or with their client.
func batches(t *testing.T, f *fleet) {
	dice := func(level string) job.Spec {
		s := spec(t, python("import os\nprint(os.urandom(16).hex())"), level, nil, "")
		s.Cache, s.Name = true, level
		return s
	}
	throw := func() map[string]job.Result {
		return f.results(t, client.BatchOptions{}, dice("cell"), dice("task"))
	}
	first := throw()
	eventually(t, "the worker says what its image is", func() bool {
		ws, err := f.api.Workers(t.Context())
		var host struct {
			ImageDigests map[string]string `json:"image_digests"`
		}
		return err == nil && len(ws) > 0 && json.Unmarshal(ws[0].Host, &host) == nil && host.ImageDigests["python"] == first["cell"].ImageDigest
	})
	eventually(t, "dice are not thrown again", func() bool { return throw()["cell"].Cached }) // the list of images may be seconds old
	for level, again := range throw() {
		was, err := f.api.Result(t.Context(), again.CachedFrom)
		if err != nil || !again.Cached || again.Stdout.Text != was.Stdout.Text || was.Cached || len(again.Attempts) != 0 || again.ID == was.ID {
			t.Errorf("%s: %+v is from %+v, %v", level, again, was, err)
		}
	}

	fails := spec(t, python("import os\nprint(os.urandom(16).hex())\nraise SystemExit(1)"), "cell", nil, "")
	fails.Cache, fails.Name = true, "fails"
	failed, id := f.batchOf(t, client.BatchOptions{}, fails, dice("cell"))
	retry, err := f.api.RetryBatch(t.Context(), id)
	if err != nil || retry.RetryOf != id || retry.Total != 1 {
		t.Fatalf("retry %+v, %v", retry, err)
	}
	if again := f.records(t, retry.ID)["fails"]; again.Cached || again.Outcome != job.Failed || again.Stdout.Text == failed["fails"].Stdout.Text {
		t.Errorf("the retry did not run: %+v", again)
	}

	sleeps := spec(t, python("import time\ntime.sleep(1000)"), "cell", limits{"wall": "30m"}, "")
	for name, o := range map[string]client.BatchOptions{"label": {Labels: map[string]string{"story": "batches"}}, "lease": {Lease: job.MinLease.D()}} {
		b, err := f.api.SubmitSpecs(t.Context(), o, func(yield func(job.Spec) bool) { yield(sleeps) })
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it runs", func() bool {
			b, err := f.api.Batch(t.Context(), b.ID, 0)
			return err == nil && b.Counts[job.Running] == 1
		})
		begun, limit := time.Now(), 2*time.Second
		if name == "lease" {
			limit += job.MinLease.D() + 4*time.Second // a reaper's round, on a busy machine
		} else if c, err := f.api.CancelLabeled(t.Context(), o.Labels); err != nil || c.Stopping != 1 || c.Canceled != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		// Through the list: reading the batch itself would renew its lease.
		eventually(t, "it is over", func() bool {
			for listed, err := range f.api.Batches(t.Context()) {
				if err != nil || listed.ID == b.ID {
					return err == nil && listed.Counts[job.Canceled] == 1
				}
			}
			return false
		})
		if took := time.Since(begun); took > limit {
			t.Errorf("%s: it took %v, want %v", name, took, limit)
		}
	}
}

// batchOf runs a batch and returns its results by name.
func (f *fleet) batchOf(t *testing.T, o client.BatchOptions, specs ...job.Spec) (map[string]job.Result, job.ID) {
	t.Helper()
	b, err := f.api.SubmitSpecs(t.Context(), o, func(yield func(job.Spec) bool) {
		for _, s := range specs {
			if !yield(s) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f.records(t, b.ID), b.ID
}

func (f *fleet) results(t *testing.T, o client.BatchOptions, specs ...job.Spec) map[string]job.Result {
	t.Helper()
	all, _ := f.batchOf(t, o, specs...)
	return all
}

// records waits for the results of a batch.
func (f *fleet) records(t *testing.T, id job.ID) map[string]job.Result {
	t.Helper()
	all := map[string]job.Result{}
	for raw, err := range f.api.Results(t.Context(), id, true) {
		var r job.Result
		if err != nil || json.Unmarshal(raw, &r) != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		all[r.Name] = r
	}
	return all
}
