package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// A job with an image that does not exist gets an error. A job whose registry is unreachable is
// retried, and blocks no other.
func unknownImage(t *testing.T, f *fleet) {
	s := spec(t, python("1"), "cell", nil, "")
	s.Image = "no-such-image"
	r, err := f.api.Run(t.Context(), s)
	if err != nil || r.Outcome != job.SetupError || !strings.Contains(r.Message, s.Image) || len(r.Attempts) != 1 {
		t.Errorf("an image that does not exist: %+v, %v", r, err)
	}
	s.Image = "127.0.0.1:1/no/such:1" // no server listens there
	unreachable, err := f.api.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if r, err := f.api.Run(t.Context(), spec(t, python("1"), "cell", nil, "")); err != nil || r.Outcome != job.Succeeded || len(r.Attempts) != 1 {
			t.Fatalf("a job beside it: %+v, %v", r, err)
		}
	}
	if got, err := f.api.Job(t.Context(), unreachable.ID, 0); err != nil || got.State.Terminal() {
		t.Errorf("an image that cannot be reached: %+v, %v", got, err)
	}
	if _, err := f.api.Cancel(t.Context(), unreachable.ID); err != nil {
		t.Error(err)
	}
	if r, err := f.api.Result(t.Context(), unreachable.ID); err != nil || r.Outcome != job.OutcomeCanceled {
		t.Errorf("canceled: %+v, %v", r, err)
	}
}

// One bad line among ten thousand is named, and no job of the batch is accepted.
func oneBadLine(t *testing.T, f *fleet) {
	const n, bad = 10_000, 7_003
	var lines strings.Builder
	for i := 1; i <= n; i++ {
		if i == bad {
			fmt.Fprintln(&lines, `{"program": {"python": {"code": "1"}}, "policy": {"memory": "12 apples"}}`)
		} else {
			fmt.Fprintln(&lines, `{"program": {"python": {"code": "1"}}}`)
		}
	}
	_, err := f.api.SubmitBatch(t.Context(), client.BatchOptions{Name: "one bad line"}, strings.NewReader(lines.String()))
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(bad)) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v", err)
	}
	for b, err := range f.api.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Name == "one bad line" {
			t.Errorf("there is a batch of it: %+v", b)
		}
	}
}

// kill -9 of the worker in the middle of a batch: every job is recorded exactly once, and no job is
// charged for it.
func killWorker(t *testing.T, f *fleet) {
	const n = 300
	b, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{Name: "kill"}, numbered(t, n, 0.2))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a part of the batch is recorded, and another runs", func() bool {
		got, err := f.api.Batch(t.Context(), b.ID, 0)
		return err == nil && got.Counts[job.Finished] > n/10 && got.Counts[job.Running] > 0
	})
	if kill(t, filepath.Join(f.bin, "worker"), unix.SIGKILL) != 1 {
		t.Fatal("there is not one worker")
	}
	if f.allOnce(t, b.ID, n) == 0 {
		t.Error("no job was interrupted")
	}
}
