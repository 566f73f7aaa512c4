package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// told counts the notifications of dispatchers.
type told struct {
	changes atomic.Int64
	foreign bool // the object store belongs to another fleet
}

// Sweep returns the findings that a test sets.
func (o *told) Sweep(_ context.Context, dry bool) (api.SweepReport, error) {
	if o.foreign {
		return api.SweepReport{}, fmt.Errorf("%w: the object store belongs to another fleet", job.ErrRefused)
	}
	r := api.SweepReport{DryRun: dry, Attempts: 9, Orphaned: 2, Bytes: 7}
	if !dry {
		r.Removed = 3
	}
	return r, nil
}

func (o *told) FleetChanged(context.Context) { o.changes.Add(1) }

// operated returns a fleet with a tenant, an operator and a worker w.
func operated(t *testing.T, change ...func(*parts)) (f *fleet, op client.Admin, o *told) {
	t.Helper()
	auth, err := identity.ReadTokens("key-a=a,key-o=ops:operator")
	if err != nil {
		t.Fatal(err)
	}
	o = &told{}
	f = newFleet(t, append(change, func(c *parts) { c.Auth, c.Fleet, c.Version = auth, o, "v-test" })...)
	if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: "w", Pool: pool, Version: "1.2", Slots: 3, StartedAt: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	return f, f.client(client.WithToken("key-o")).Admin(), o
}

// TestOnlyOperatorsAct: every route of operators rejects tenants and callers without a token, and does nothing.
func TestOnlyOperatorsAct(t *testing.T) {
	t.Parallel()
	f, op, o := operated(t)
	n := 0
	for _, p := range httpapi.Patterns() {
		method, path, _ := strings.Cut(p, " ")
		if !strings.HasPrefix(path, "/v1/admin/") {
			continue
		}
		n++
		path = strings.NewReplacer("{worker}", "w", "{tenant}", "a").Replace(path)
		for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "key-a": http.StatusForbidden} {
			if code, body := f.send(token, method, path, strings.NewReader(`{"for":"1m"}`)); code != want {
				t.Errorf("%s %s with token %q: %d %+v, want %d", method, path, token, code, body, want)
			}
		}
	}
	if n < 17 {
		t.Errorf("%d routes of operators", n)
	}
	as, err := op.Actions(t.Context(), store.ActionQuery{})
	if err != nil || len(as.Actions) != 0 || o.changes.Load() != 0 {
		t.Errorf("something was done: %+v, %v", as, err)
	}
	if w, err := op.Worker(t.Context(), "w"); err != nil || w.Worker.Cordon != nil || w.Worker.Quarantine != nil {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestOperatorsCordon(t *testing.T) {
	t.Parallel()
	_, op, o := operated(t)
	ctx := t.Context()
	done, err := op.Cordon(ctx, "w", "a fan is broken")
	if err != nil || done.Outcome != store.ActionDone || done.Actor != "ops" || len(done.Token) != 8 || done.Action != "cordon" || done.At.IsZero() {
		t.Fatalf("%+v, %v", done, err)
	}
	if again, err := op.Cordon(ctx, "w", ""); err != nil || again.Outcome != store.ActionUnchanged || again.ID == done.ID {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	if w, err := op.Worker(ctx, "w"); err != nil || w.Worker.Cordon == nil || w.Worker.Cordon.By != "ops" || w.Worker.Cordon.Reason != "a fan is broken" {
		t.Errorf("%+v, %v", w, err)
	}
	if got, err := op.Quarantine(ctx, "w", api.QuarantineRequest{For: job.Duration(time.Minute), Reason: "flaky"}); err != nil || got.Outcome != store.ActionDone {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := op.Unquarantine(ctx, "w", ""); err != nil || got.Outcome != store.ActionDone {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := op.Uncordon(ctx, "w", ""); err != nil || got.Outcome != store.ActionDone {
		t.Errorf("%+v, %v", got, err)
	}
	if n := o.changes.Load(); n != 5 {
		t.Errorf("dispatchers were told %d times, want 5", n)
	}
	if _, err := op.Cordon(ctx, "nobody", ""); !errors.Is(err, job.ErrNotFound) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a worker that is unknown: %v", err)
	}

	first, err := op.Actions(ctx, store.ActionQuery{Limit: 4})
	if err != nil || len(first.Actions) != 4 || first.Next == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if a := first.Actions[0]; a.Outcome != store.ActionFailed || a.Subject != "nobody" || !strings.Contains(string(a.Detail), "not found") {
		t.Errorf("what failed is recorded as %+v", a)
	}
	rest, err := op.Actions(ctx, store.ActionQuery{Before: first.Next})
	if err != nil || len(rest.Actions) != 2 || rest.Next != "" || rest.Actions[1].ID != done.ID {
		t.Errorf("%+v, %v", rest, err)
	}
	if of, err := op.Actions(ctx, store.ActionQuery{Subject: "w"}); err != nil || len(of.Actions) != 5 {
		t.Errorf("of w: %+v, %v", of, err)
	}
}

// TestBadOrders: errors name the bad field, and nothing happens.
func TestBadOrders(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	for name, c := range map[string]struct{ method, path, body, field string }{
		"unknown field":        {"POST", "/v1/admin/workers/w/cordon", `{"reson":"x"}`, "reson"},
		"long reason":          {"POST", "/v1/admin/workers/w/cordon", `{"reason":"` + strings.Repeat("x", 1001) + `"}`, "reason"},
		"no time":              {"POST", "/v1/admin/workers/w/quarantine", `{}`, "for"},
		"no body":              {"POST", "/v1/admin/workers/w/quarantine", ``, "for"},
		"a negative time":      {"POST", "/v1/admin/workers/w/quarantine", `{"for":"-1m"}`, "for"},
		"too long a time":      {"POST", "/v1/admin/workers/w/quarantine", `{"for":"721h"}`, "for"},
		"not a time":           {"POST", "/v1/admin/workers/w/quarantine", `{"for":7}`, "for"},
		"requeue for nothing":  {"POST", "/v1/admin/requeue", `{"worker":"w"}`, "reason"},
		"requeue nothing":      {"POST", "/v1/admin/requeue", `{"reason":"x"}`, "jobs"},
		"requeue both":         {"POST", "/v1/admin/requeue", `{"reason":"x","worker":"w","jobs":["019374b1-7b6c-7e7e-8d2a-000000000001"]}`, "jobs"},
		"requeue no job":       {"POST", "/v1/admin/requeue", `{"reason":"x","jobs":["x"]}`, "jobs[0]"},
		"requeue too many":     {"POST", "/v1/admin/requeue", `{"reason":"x","jobs":["x"` + strings.Repeat(`,"x"`, 500) + `]}`, "jobs"},
		"pause nothing":        {"POST", "/v1/admin/pause", `{}`, ""},
		"pause two":            {"POST", "/v1/admin/pause", `{"tenant":"a","pool":"default"}`, ""},
		"pause no batch":       {"POST", "/v1/admin/pause", `{"batch":"x"}`, "batch"},
		"pause no pool":        {"POST", "/v1/admin/pause", `{"pool":"gup"}`, "pool"},
		"resume nothing":       {"POST", "/v1/admin/resume", `{}`, ""},
		"override nothing":     {"POST", "/v1/admin/tenants/a/override", `{"for":"1h"}`, ""},
		"a weight of nothing":  {"POST", "/v1/admin/tenants/a/override", `{"weight":0}`, "weight"},
		"a negative weight":    {"POST", "/v1/admin/tenants/a/override", `{"weight":-1}`, "weight"},
		"a negative limit":     {"POST", "/v1/admin/tenants/a/override", `{"max_running":-1}`, "max_running"},
		"a cap of nothing":     {"POST", "/v1/admin/tenants/a/override", `{"label_caps":{"x":0}}`, "label_caps.x"},
		"a negative override":  {"POST", "/v1/admin/tenants/a/override", `{"weight":1,"for":"-1s"}`, "for"},
		"verify no batch":      {"POST", "/v1/admin/verify", `{"batch":"x"}`, "batch"},
		"verify after nothing": {"POST", "/v1/admin/verify", `{"after":"x"}`, "after"},
		"verify too many":      {"POST", "/v1/admin/verify", `{"limit":101}`, "limit"},
		"sweep what":           {"POST", "/v1/admin/sweep", `{"dryrun":true}`, "dryrun"},
		"limit":                {"GET", "/v1/admin/actions?limit=x", ``, "limit"},
		"limit of none":        {"GET", "/v1/admin/actions?limit=0", ``, "limit"},
		"too high a limit":     {"GET", "/v1/admin/actions?limit=1001", ``, "limit"},
		"before no action":     {"GET", "/v1/admin/actions?before=x", ``, "before"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := f.do(c.method, c.path, c.body, "Authorization", "Bearer key-o")
			checkProblem(t, resp, body, http.StatusUnprocessableEntity, c.field, 0)
		})
	}
	if as, err := op.Actions(t.Context(), store.ActionQuery{}); err != nil || len(as.Actions) != 0 {
		t.Errorf("something was done: %+v, %v", as, err)
	}
}

func TestWhoLeadsAndVersions(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	ctx := t.Context()
	if _, err := op.Leader(ctx); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("nobody leads: %v", err)
	}
	if _, err := f.store.Lead(ctx, store.DispatchRole, "host/1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if l, err := op.Leader(ctx); err != nil || l.Holder != "host/1" || l.Term != 1 || l.Since.IsZero() {
		t.Errorf("%+v, %v", l, err)
	}
	v, err := op.Version(ctx)
	if err != nil || v.Dispatcher != "v-test" || v.Schema.Has != v.Schema.Wants || v.Schema.Has == 0 || v.Workers["1.2"] != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A job that only cordoned workers could run has a message about it.
func TestJobsSayThatWorkersAreCordoned(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	ctx := t.Context()
	f.runner.hold()
	host := []byte(`{"isolations":["task"],"cores":2,"memory":"1Gi"}`)
	if err := f.store.PutWorkers(ctx, []store.Worker{{ID: "gpu", Pool: "gpu", Slots: 3, StartedAt: time.Now(), Host: host}}); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Cordon(ctx, "gpu", ""); err != nil {
		t.Fatal(err)
	}
	a := f.client(client.WithToken("key-a"))
	spec := job.Spec{Pool: "gpu", Program: job.Program{Python: &job.Python{Code: "1"}}, Policy: []byte(`{"enforce":"report"}`)}
	accepted, err := a.Submit(ctx, spec)
	if err != nil || accepted.State != job.Queued { // it was not dispatched to a cordoned worker
		t.Fatalf("%+v, %v", accepted, err)
	}
	j, err := a.Job(ctx, accepted.ID, 0)
	if err != nil || !strings.Contains(j.Message, "the suitable workers are cordoned by ops") {
		t.Errorf("it says %q, %v", j.Message, err)
	}
}
