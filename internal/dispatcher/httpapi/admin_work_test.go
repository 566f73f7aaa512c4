package httpapi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// logged returns the newest actions as "action subject outcome".
func logged(t *testing.T, op client.Admin, n int) (out []string) {
	t.Helper()
	as, err := op.Actions(t.Context(), store.ActionQuery{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range as.Actions {
		out = append(out, a.Action+" "+a.Subject+" "+string(a.Outcome))
	}
	return out
}

// TestOperatorsPause: no job of a paused tenant runs, and all run after the pause.
func TestOperatorsPause(t *testing.T) {
	t.Parallel()
	f, op, o := operated(t)
	ctx := t.Context()
	a := f.client(client.WithToken("key-a"))
	warm, err := a.Run(ctx, job.Spec{Program: job.Program{Python: &job.Python{Code: "one"}}})
	if err != nil || warm.Outcome != job.Succeeded {
		t.Fatal(warm, err)
	}
	if _, err := op.Pause(ctx, api.PauseRequest{Tenant: "nobody"}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a tenant that is unknown: %v", err)
	}
	if got, err := op.Pause(ctx, api.PauseRequest{Tenant: "a", Reason: "its bill"}); err != nil || got.Outcome != store.ActionDone {
		t.Fatal(got, err)
	}
	batch, err := a.SubmitBatch(ctx, client.BatchOptions{}, strings.NewReader(lines(3)))
	if err != nil {
		t.Fatal(err)
	}
	single, err := a.Submit(ctx, job.Spec{Program: job.Program{Python: &job.Python{Code: "one"}}})
	if err != nil || single.State != job.Queued {
		t.Errorf("a single job is %+v, %v", single, err)
	}
	ds, err := f.store.Schedule(ctx, []string{"", pool}, 100)
	if err != nil || len(ds) != 0 {
		t.Errorf("%d jobs of a paused tenant were dispatched, %v", len(ds), err)
	}
	if j, err := a.Job(ctx, single.ID, 0); err != nil || j.Message != "waits until its tenant is resumed: paused by ops: its bill" {
		t.Errorf("it says %q, %v", j.Message, err)
	}
	ps, err := op.Pauses(ctx)
	if err != nil || len(ps) != 1 || ps[0].Kind != "tenant" || ps[0].Name != "a" || ps[0].By != "ops" || ps[0].Reason != "its bill" {
		t.Errorf("paused: %+v, %v", ps, err)
	}
	if got, err := op.Resume(ctx, api.PauseRequest{Tenant: "a"}); err != nil || got.Outcome != store.ActionDone {
		t.Fatal(got, err)
	}
	if b, err := a.Batch(ctx, batch.ID, 30*time.Second); err != nil || !b.Done() {
		t.Errorf("afterwards the batch is %+v, %v", b, err)
	}
	if r, err := a.Result(ctx, single.ID); err != nil || r.Outcome != job.Succeeded {
		t.Errorf("afterwards the job is %+v, %v", r, err)
	}
	if _, err := op.Pause(ctx, api.PauseRequest{Batch: batch.ID}); err != nil {
		t.Error(err)
	}
	before := o.changes.Load()
	if _, err := op.Pause(ctx, api.PauseRequest{Pool: pool}); err != nil || o.changes.Load() == before {
		t.Errorf("a pool: %v, dispatchers told: %v", err, o.changes.Load() > before)
	}
	if w, err := op.Worker(ctx, "w"); err != nil || w.Worker.Cordon == nil {
		t.Errorf("a worker of a paused pool: %+v, %v", w, err)
	}
	got := strings.Join(logged(t, op, 10), ", ")
	if want := "pause pool default done, pause batch " + string(batch.ID) + " done, resume tenant a done, pause tenant a done, pause tenant nobody failed"; got != want {
		t.Errorf("logged %s, want %s", got, want)
	}
}

// TestOperatorsRequeue: a hanging attempt is stopped and its job runs again once.
func TestOperatorsRequeue(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	ctx := t.Context()
	a := f.client(client.WithToken("key-a"))
	hung, err := a.Submit(ctx, job.Spec{Program: job.Program{Python: &job.Python{Code: "hang"}}})
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	until("it hangs", func() bool { return f.runner.hangs() == 1 })
	if _, err := op.Requeue(ctx, api.RequeueRequest{Jobs: []job.ID{job.NewID()}, Reason: "x"}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a job that is unknown: %v", err)
	}
	f.runner.hold()
	got, err := op.Requeue(ctx, api.RequeueRequest{Worker: "w1", Reason: "it hangs"})
	if err != nil || got.Outcome != store.ActionDone || !strings.Contains(string(got.Detail), `"running":1`) {
		t.Fatalf("%+v, %v", got, err)
	}
	until("the attempt is stopped", func() bool { return f.runner.hangs() == 0 })
	if j, err := a.Job(ctx, hung.ID, 0); err != nil || j.State != job.Queued {
		t.Errorf("the job is %+v, %v", j, err)
	}
	f.runner.release()
	until("it runs again", func() bool { return f.runner.hangs() == 1 })
	if _, err := a.Cancel(ctx, hung.ID); err != nil {
		t.Fatal(err)
	}
	r, err := a.Result(ctx, hung.ID)
	if err != nil || r.Outcome != job.OutcomeCanceled || len(r.Attempts) != 2 || r.Attempts[0].Reason != job.ReasonDrained {
		t.Errorf("recorded %+v, %v", r, err)
	}
}

// TestOperatorsOverride: an override of a tenant's limits applies at once, and so does its end.
func TestOperatorsOverride(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	ctx := t.Context()
	if err := f.store.PutTenant(ctx, store.Tenant{Name: "a", Weight: 2, MaxRunning: 5}); err != nil {
		t.Fatal(err)
	}
	weight, caps := 0.5, job.LabelCaps{"problem": 2}
	if got, err := op.Override(ctx, "a", api.OverrideRequest{Weight: &weight, LabelCaps: &caps, For: job.Duration(time.Hour), Reason: "noisy"}); err != nil || got.Outcome != store.ActionDone || !strings.Contains(string(got.Detail), `"1h0m0s"`) {
		t.Fatalf("%+v, %v", got, err)
	}
	if n, err := op.Tenant(ctx, "a"); err != nil || n.Weight != 0.5 || n.MaxRunning != 5 || n.LabelCaps["problem"] != 2 || n.Override == nil || n.Override.Until == nil || *n.Override.Granted.Weight != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	if got, err := op.Restore(ctx, "a", ""); err != nil || got.Outcome != store.ActionDone {
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := op.Tenant(ctx, "a"); err != nil || n.Weight != 2 || n.LabelCaps != nil || n.Override != nil {
		t.Errorf("restored: %+v, %v", n, err)
	}
	if _, err := op.Override(ctx, "nobody", api.OverrideRequest{Weight: &weight}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a tenant that is unknown: %v", err)
	}
}

func TestOperatorsVerifyAndSweep(t *testing.T) {
	t.Parallel()
	f, op, o := operated(t)
	ctx := t.Context()
	f.runner.hold()
	a := f.client(client.WithToken("key-a"))
	for range 3 {
		if _, err := a.SubmitBatch(ctx, client.BatchOptions{}, strings.NewReader(lines(2))); err != nil {
			t.Fatal(err)
		}
	}
	first, err := op.Verify(ctx, api.VerifyRequest{Limit: 2, Repair: true})
	if err != nil || first.Checked != 2 || first.Next == "" || len(first.Different) != 0 || len(first.Repaired) != 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	if rest, err := op.Verify(ctx, api.VerifyRequest{Limit: 2, After: first.Next}); err != nil || rest.Checked != 1 || rest.Next != "" {
		t.Errorf("%+v, %v", rest, err)
	}
	if _, err := op.Verify(ctx, api.VerifyRequest{Batch: job.NewID()}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a batch that is unknown: %v", err)
	}
	if r, err := op.Sweep(ctx, api.SweepRequest{DryRun: true}); err != nil || !r.DryRun || r.Orphaned != 2 || r.Removed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := op.Sweep(ctx, api.SweepRequest{}); err != nil || r.Removed != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	o.foreign = true
	if _, err := op.Sweep(ctx, api.SweepRequest{}); !errors.Is(err, job.ErrRefused) {
		t.Errorf("another fleet's: %v", err)
	}
	want := "sweep object store failed, sweep object store done, sweep (dry run) object store unchanged"
	if got := strings.Join(logged(t, op, 3), ", "); got != want {
		t.Errorf("logged %s, want %s", got, want)
	}
	none := newFleet(t, func(c *parts) { c.Fleet = nil })
	if _, err := none.client(client.WithPatience(0)).Admin().Sweep(ctx, api.SweepRequest{}); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("without an object store: %v", err)
	}
}
