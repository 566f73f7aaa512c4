package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestJobsSayWhatTheyWaitFor: a queued job and its group in the queue have the reason for the wait as a word and as a
// sentence.
func TestJobsSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	ctx := t.Context()
	f.runner.hold()
	host := []byte(`{"isolations":["task"],"cores":2,"memory":"64Gi"}`)
	put := func(edit func(*store.Worker)) {
		t.Helper()
		w := store.Worker{ID: "w", Pool: pool, Version: "1.2", Slots: 3, StartedAt: time.Unix(1800000000, 0), Host: host, Offer: []byte(`{"isolations":["task"]}`)}
		edit(&w)
		if err := f.store.PutWorkers(ctx, []store.Worker{w}); err != nil {
			t.Fatal(err)
		}
	}
	a := f.client(client.WithToken("key-a"))
	waits := func(spec job.Spec, want job.Wait, why string) {
		t.Helper()
		spec.Program, spec.Policy = job.Program{Python: &job.Python{Code: "1"}}, []byte(`{"enforce":"report"}`)
		b, err := a.SubmitSpecs(ctx, client.BatchOptions{}, func(yield func(job.Spec) bool) { yield(spec) })
		if err != nil {
			t.Fatal(err)
		}
		var id job.ID
		for j, err := range a.Jobs(ctx, client.JobFilter{Batch: b.ID}) {
			if err != nil {
				t.Fatal(err)
			}
			id = j.ID
		}
		var j *job.Job
		f.until("a job waits for "+string(want), func() bool {
			if j, err = a.Job(ctx, id, 0); err != nil {
				t.Fatal(err)
			}
			return j.WaitsFor == want && strings.Contains(j.Message, why)
		})
		f.until("the queue says the same", func() bool {
			now, err := a.Now(ctx)
			for _, g := range now.Queue {
				if g.WaitsFor == want && strings.Contains(g.Message, why) {
					return true
				}
			}
			return err != nil
		})
		if _, err := a.CancelBatch(ctx, b.ID); err != nil {
			t.Fatal(err)
		}
	}
	put(func(w *store.Worker) { w.InUse, w.Load = 3, store.WorkerLoad{Running: 5, Cores: 2, CoresUsed: 0.3} })
	waits(job.Spec{}, job.WaitsSlot, "the workers that could run it (1) have no free slots; running jobs there: 5")
	put(func(w *store.Worker) { w.InUse, w.Load = 3, store.WorkerLoad{Running: 5, Cores: 2, CoresUsed: 2} })
	waits(job.Spec{}, job.WaitsCores, "2.0 of 2")
	waits(job.Spec{Requires: map[string]string{"gpu": "a100"}}, job.WaitsNeeds, "gpu")
	if _, err := op.Pause(ctx, api.PauseRequest{Tenant: "a", Reason: "bill"}); err != nil {
		t.Fatal(err)
	}
	waits(job.Spec{}, job.WaitsPaused, "paused by ops: bill")
	if _, err := op.Resume(ctx, api.PauseRequest{Tenant: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Pause(ctx, api.PauseRequest{Pool: pool, Reason: "an upgrade"}); err != nil {
		t.Fatal(err)
	}
	waits(job.Spec{}, job.WaitsPaused, "waits until pool "+pool+" is resumed: paused by ops: an upgrade")
	if _, err := op.Resume(ctx, api.PauseRequest{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Pause(ctx, api.PauseRequest{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	waits(job.Spec{}, job.WaitsPaused, "paused by ops")
	if _, err := op.Cordon(ctx, "w", "a fan is broken"); err != nil {
		t.Fatal(err)
	}
	waits(job.Spec{}, job.WaitsWorker, "the suitable workers are cordoned by ops: a fan is broken")
}
