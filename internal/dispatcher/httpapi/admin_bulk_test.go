package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

var operatorKey = []string{"Authorization", "Bearer key-o"}

// workersOf returns six workers of two pools and two versions. Those with even numbers have a label.
func workersOf() (ws []store.Worker) {
	for i := range 6 {
		w := store.Worker{ID: fmt.Sprintf("b%d", i), Pool: fmt.Sprintf("p%d", i/3), Version: fmt.Sprintf("v%d", i%3), Slots: 2, StartedAt: time.Now(), Offer: []byte(`{}`)}
		if i%2 == 0 {
			w.Offer = []byte(`{"labels":{"zone":"a"}}`)
		}
		ws = append(ws, w)
	}
	return ws
}

// TestCordonMany cordons workers by pool, version and labels. Each has a record; a dry run changes nothing.
func TestCordonMany(t *testing.T) {
	t.Parallel()
	f, op, o := operated(t)
	ctx := t.Context()
	if err := f.store.PutWorkers(ctx, workersOf()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chosen nouns.WorkerSelector
		want   []string
	}{
		{nouns.WorkerSelector{Pool: "p0"}, []string{"b0", "b1", "b2"}},
		{nouns.WorkerSelector{Version: "v1"}, []string{"b1", "b4"}},
		{nouns.WorkerSelector{Labels: map[string]string{"zone": "a"}}, []string{"b0", "b2", "b4"}},
		{nouns.WorkerSelector{Pool: "p1", Labels: map[string]string{"zone": "a"}}, []string{"b4"}},
		{nouns.WorkerSelector{State: nouns.WorkerCordoned}, []string{}},
		{nouns.WorkerSelector{Names: []string{"b3", "w"}}, []string{"b3", "w"}},
		{nouns.WorkerSelector{Labels: map[string]string{"zone": "b"}}, []string{}},
	} {
		r, err := op.CordonAll(ctx, api.WorkersRequest{Workers: c.chosen, DryRun: true})
		if err != nil || !slices.Equal(r.Workers, c.want) || r.Changed != 0 {
			t.Errorf("%+v chooses %+v, %v; want %v", c.chosen, r, err, c.want)
		}
	}
	if n := o.changes.Load(); n != 0 {
		t.Errorf("dry runs have told dispatchers %d times of a change", n)
	}
	r, err := op.CordonAll(ctx, api.WorkersRequest{Workers: nouns.WorkerSelector{Pool: "p0"}, Reason: "disks"})
	if err != nil || r.Changed != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = op.CordonAll(ctx, api.WorkersRequest{Workers: nouns.WorkerSelector{Pool: "p0"}}); err != nil || r.Changed != 0 || len(r.Workers) != 3 {
		t.Errorf("the second time: %+v, %v", r, err)
	}
	acts, err := op.Actions(ctx, store.ActionQuery{Action: "cordon", Subject: "b1"})
	if err != nil || len(acts.Actions) != 2 || acts.Actions[1].Reason != "disks" || acts.Actions[1].Outcome != store.ActionDone {
		t.Errorf("the records are %+v, %v", acts, err)
	}
	all, err := f.client(client.WithToken("key-o")).FleetOf(ctx, nouns.WorkerSelector{State: nouns.WorkerCordoned})
	if err != nil || len(all.Workers) != 3 || all.Workers[0].Free != 0 {
		t.Errorf("cordoned are %+v, %v", all, err)
	}
	if r, err = op.UncordonAll(ctx, api.WorkersRequest{Workers: nouns.WorkerSelector{State: nouns.WorkerCordoned}}); err != nil || r.Changed != 3 {
		t.Errorf("uncordoned are %+v, %v", r, err)
	}
	for want, chosen := range map[string]nouns.WorkerSelector{"workers": {}, "workers.state": {State: "asleep"}} {
		if _, err := op.CordonAll(ctx, api.WorkersRequest{Workers: chosen}); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v is refused with %v, want %s", chosen, err, want)
		}
	}
	long := api.WorkersRequest{Workers: nouns.WorkerSelector{Pool: "p0"}, Reason: strings.Repeat("r", 1001), DryRun: true}
	if _, err := op.CordonAll(ctx, long); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "reason") {
		t.Errorf("a dry run with a reason of 1001 bytes: %v", err)
	}
	if _, err := op.CordonAll(ctx, api.WorkersRequest{Workers: nouns.WorkerSelector{Names: []string{"b1", "nobody"}}}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestPagesOfWorkers: the pages of GET /v1/workers and GET /v1/fleet contain each selected worker once, and all pools.
func TestPagesOfWorkers(t *testing.T) {
	t.Parallel()
	f, _, _ := operated(t)
	if err := f.store.PutWorkers(t.Context(), workersOf()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/workers", "/v1/fleet"} {
		var names []string
		for after := ""; ; {
			re, body := f.do(http.MethodGet, path+"?label=zone%3Da&limit=2&after="+after, "", operatorKey...)
			var page api.Fleet
			if err := json.Unmarshal([]byte(body), &page); re.StatusCode != http.StatusOK || err != nil || len(page.Workers) > 2 || len(page.Pools) != 3 {
				t.Fatalf("%s: %s %s %v", path, re.Status, body, err)
			}
			for _, w := range page.Workers {
				names = append(names, w.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if want := []string{"b0", "b2", "b4"}; !slices.Equal(names, want) {
			t.Errorf("the pages of %s have %v, want %v", path, names, want)
		}
		for query, field := range map[string]string{"state=asleep": "state", "limit=0": "limit", "label=x": "label", "pool=a&pool=b": "pool", "page=2": "page"} {
			if re, body := f.do(http.MethodGet, path+"?"+query, "", operatorKey...); re.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, field) {
				t.Errorf("%s?%s: %s %s", path, query, re.Status, body)
			}
		}
	}
}

// TestWhySlow: operators get a verdict first; tenants are refused.
func TestWhySlow(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	ctx := t.Context()
	report := nouns.Report{Dispatcher: "host/1", Leads: true, Looks: nouns.Timings{Count: 9, Failed: 9, LastError: "canceling statement"}, MaxConnections: 16}
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutReport(ctx, "host/1", raw); err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutReport(ctx, "newer", []byte(`[]`)); err != nil { // from another release
		t.Fatal(err)
	}
	if _, err := f.store.Lead(ctx, store.DispatchRole, "host/1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Cordon(ctx, "w", "fan"); err != nil {
		t.Fatal(err)
	}
	w, err := op.WhySlow(ctx)
	if err != nil || !strings.HasPrefix(w.Verdict[0], "Looks fail: 9 of 9") || len(w.Dispatchers) != 1 || w.Database.LocksMax == 0 || w.Leader == nil {
		t.Errorf("%+v, %v", w, err)
	}
	if len(w.Stopped) != 1 || w.Stopped[0].State != "cordoned" || w.Stopped[0].Reason != "fan" {
		t.Errorf("stopped are %+v", w.Stopped)
	}
	if _, err := f.client(client.WithToken("key-a")).Admin().WhySlow(ctx); !errors.Is(err, job.ErrRefused) {
		t.Errorf("a tenant: %v", err)
	}
}
