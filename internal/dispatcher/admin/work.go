package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Requeue queues jobs again, so that they run elsewhere or at once, at no cost to them. It notifies the workers whose
// attempts it took. A worker that misses the message is notified in the answer to its next heartbeat.
func (a *Admin) Requeue(ctx context.Context, who Actor, q api.RequeueRequest) (*store.Action, error) {
	if err := checkRequeue(q); err != nil {
		return nil, err
	}
	subject := q.Worker
	switch {
	case len(q.Jobs) == 1:
		subject = string(q.Jobs[0])
	case len(q.Jobs) > 1:
		subject = fmt.Sprintf("%s and %d others", q.Jobs[0], len(q.Jobs)-1)
	}
	var taken []store.Canceling
	done, err := a.act(ctx, who, "requeue", subject, q.Reason, func(done *store.Action) (err error) {
		taken, err = a.Store.Requeue(ctx, done, store.Requeue{Jobs: q.Jobs, Worker: q.Worker})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range taken {
		if err := a.Stop(t.Worker, t.LeaseRef); err != nil {
			a.Log.WarnContext(ctx, "attempt taken from a worker without notice; its next heartbeat will report it", "worker", t.Worker, "job", t.Job, "error", err)
		}
	}
	a.Wake()
	return done, nil
}

func checkRequeue(q api.RequeueRequest) error {
	switch {
	case q.Reason == "":
		return job.Invalid("reason", "must not be empty: it is recorded with the attempts")
	case (len(q.Jobs) == 0) == (q.Worker == ""):
		return job.Invalid("jobs", "name either jobs or a worker")
	case len(q.Jobs) > store.MaxRequeue:
		return job.Invalid("jobs", "has %d; the most is %d", len(q.Jobs), store.MaxRequeue)
	}
	for i, id := range q.Jobs {
		if _, err := job.ParseID(string(id)); err != nil {
			return job.Invalid(fmt.Sprintf("jobs[%d]", i), "%.80q is not the id of a job", id)
		}
	}
	return nil
}

// Pause pauses a batch, the jobs of a tenant, or the workers of a pool. Running jobs continue.
func (a *Admin) Pause(ctx context.Context, who Actor, q api.PauseRequest) (*store.Action, error) {
	if q.Pool != "" && a.Pool != nil {
		if err := a.Pool(ctx, q.Pool); err != nil {
			return nil, err
		}
	}
	return a.pausing(ctx, who, "pause", q, a.Store.Pause)
}

// Resume ends a pause.
func (a *Admin) Resume(ctx context.Context, who Actor, q api.PauseRequest) (*store.Action, error) {
	return a.pausing(ctx, who, "resume", q, a.Store.Resume)
}

func (a *Admin) pausing(ctx context.Context, who Actor, action string, q api.PauseRequest, do func(context.Context, *store.Action, store.Pausable) error) (*store.Action, error) {
	what, err := pausable(q)
	if err != nil {
		return nil, err
	}
	done, err := a.act(ctx, who, action+" "+what.Kind, what.Name, q.Reason, func(done *store.Action) error { return do(ctx, done, what) })
	if err != nil {
		return nil, err
	}
	if what.Kind == store.PausePool {
		a.changed(ctx)
	}
	a.Wake()
	return done, nil
}

func pausable(q api.PauseRequest) (what store.Pausable, err error) {
	n := 0
	for _, p := range []store.Pausable{{Kind: store.PauseBatch, Name: string(q.Batch)}, {Kind: store.PauseTenant, Name: q.Tenant}, {Kind: store.PausePool, Name: q.Pool}} {
		if p.Name != "" {
			what, n = p, n+1
		}
	}
	if n != 1 {
		return what, job.Invalid("", "name exactly one of batch, tenant and pool")
	}
	if q.Batch != "" {
		if _, err := job.ParseID(string(q.Batch)); err != nil {
			return what, job.Invalid("batch", "%.80q is not the id of a batch", q.Batch)
		}
	}
	return what, nil
}

// Pauses returns the current pauses.
func (a *Admin) Pauses(ctx context.Context) (api.PauseList, error) {
	ps, err := a.Store.Pauses(ctx)
	if err != nil {
		return api.PauseList{}, fmt.Errorf("list pauses: %w", err)
	}
	return api.PauseList{Pauses: append([]store.Pause{}, ps...)}, nil
}

// Override replaces some settings of a tenant, for waiting jobs, too. It lasts for q.For, or until Restore.
func (a *Admin) Override(ctx context.Context, who Actor, tenant string, q api.OverrideRequest) (*store.Action, error) {
	if err := checkOverride(q); err != nil {
		return nil, err
	}
	o := store.Override{Weight: q.Weight, MaxRunning: q.MaxRunning, LabelCaps: q.LabelCaps}
	return a.onTenant(ctx, who, "override", tenant, q.Reason, func(done *store.Action) error { return a.Store.Override(ctx, done, tenant, o, q.For.D()) })
}

func checkOverride(q api.OverrideRequest) error {
	switch {
	case q.Weight == nil && q.MaxRunning == nil && q.LabelCaps == nil:
		return job.Invalid("", "give weight, max_running or label_caps")
	case q.Weight != nil && !(*q.Weight > 0 && *q.Weight <= 1e6):
		return job.Invalid("weight", "must be above 0 and at most 1000000")
	case q.MaxRunning != nil && (*q.MaxRunning < 0 || *q.MaxRunning > maxRunning):
		return job.Invalid("max_running", "must be 0 (no limit) to %d", maxRunning)
	case q.For.D() < 0:
		return job.Invalid("for", "must not be negative; without it the override lasts until it is ended")
	}
	if q.LabelCaps != nil {
		return q.LabelCaps.Validate("label_caps")
	}
	return nil
}

// Restore ends an override.
func (a *Admin) Restore(ctx context.Context, who Actor, tenant string, q api.OperatorRequest) (*store.Action, error) {
	return a.onTenant(ctx, who, "restore", tenant, q.Reason, func(done *store.Action) error { return a.Store.EndOverride(ctx, done, tenant) })
}

func (a *Admin) onTenant(ctx context.Context, who Actor, action, tenant, reason string, do func(*store.Action) error) (*store.Action, error) {
	done, err := a.Do(ctx, who, store.Action{Action: action, Subject: tenant, Tenant: tenant, Reason: reason}, do)
	if err == nil {
		a.Wake()
	}
	return done, err
}

// Tenant returns the current settings of a tenant; the defaults for an unknown one.
func (a *Admin) Tenant(ctx context.Context, name string) (store.Tenant, error) {
	return a.Store.Tenant(ctx, name)
}

// Batches of one Verify.
const (
	verifyPage = 20
	verifyMost = 100
)

// Verify compares the counters of batches with their rows, and repairs them if q.Repair is set.
func (a *Admin) Verify(ctx context.Context, who Actor, q api.VerifyRequest) (*api.VerifyReport, error) {
	if err := checkVerify(&q); err != nil {
		return nil, err
	}
	subject := string(q.Batch)
	if subject == "" {
		subject = "open batches"
	}
	out := &api.VerifyReport{Different: []store.Verified{}, Repaired: []job.ID{}}
	_, err := a.act(ctx, who, "verify", subject, q.Reason, func(done *store.Action) error {
		vs, err := a.Store.Verify(ctx, store.VerifyQuery{Batch: q.Batch, After: q.After, Limit: q.Limit})
		if err != nil {
			return err
		}
		out.Checked = len(vs)
		for _, v := range vs {
			if len(v.Problems) > 0 {
				out.Different = append(out.Different, v)
			}
		}
		if q.Batch == "" && len(vs) == q.Limit {
			out.Next = vs[len(vs)-1].Batch
		}
		done.Detail, _ = json.Marshal(map[string]int{"checked": out.Checked, "different": len(out.Different)}) // numbers always marshal
		done.Outcome = store.ActionDone
		return a.Store.NoteAction(ctx, done)
	})
	if err != nil || !q.Repair {
		return out, err
	}
	for _, v := range out.Different {
		if !v.Repairable {
			continue
		}
		_, err := a.act(ctx, who, "repair", string(v.Batch), q.Reason, func(done *store.Action) error { return a.Store.Repair(ctx, done, v.Batch) })
		switch {
		case err == nil:
			out.Repaired = append(out.Repaired, v.Batch)
		case !errors.Is(err, job.ErrRefused): // refusals are recorded
			return nil, err
		}
	}
	return out, nil
}

func checkVerify(q *api.VerifyRequest) error {
	if q.Limit == 0 {
		q.Limit = verifyPage
	}
	if q.Limit < 1 || q.Limit > verifyMost {
		return job.Invalid("limit", "must be 1 to %d", verifyMost)
	}
	if q.Batch != "" && q.After != "" {
		return job.Invalid("after", "is for all unfinished batches; leave out batch")
	}
	if err := checkBatch("batch", q.Batch); err != nil {
		return err
	}
	return checkBatch("after", q.After)
}

func checkBatch(field string, id job.ID) error {
	if id == "" {
		return nil
	}
	if _, err := job.ParseID(string(id)); err != nil {
		return job.Invalid(field, "%.80q is not the id of a batch", id)
	}
	return nil
}

// Sweep removes objects that no record names, or counts them in a dry run. It returns job.ErrUnavailable without an
// object store.
func (a *Admin) Sweep(ctx context.Context, who Actor, q api.SweepRequest) (out *api.SweepReport, err error) {
	if a.Fleet == nil {
		return nil, fmt.Errorf("%w: this dispatcher has no object store to sweep", job.ErrUnavailable)
	}
	action := "sweep"
	if q.DryRun {
		action = "sweep (dry run)"
	}
	_, err = a.act(ctx, who, action, "object store", q.Reason, func(done *store.Action) error {
		found, err := a.Fleet.Sweep(ctx, q.DryRun)
		if err != nil {
			return err
		}
		out = &found
		done.Detail, _ = json.Marshal(found) // numbers always marshal
		done.Outcome = store.ActionUnchanged
		if found.Removed > 0 {
			done.Outcome = store.ActionDone
		}
		return a.Store.NoteAction(ctx, done)
	})
	return out, err
}
