package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// operated is a fleet that writes down what operators ask for; the real one is tested in
// internal/dispatcher/httpapi.
type operated struct {
	*server
	mu       sync.Mutex
	asked    []string           // METHOD PATH?QUERY BODY
	verified []api.VerifyReport // one after the other
	left     []int64            // jobs on the worker, at one look after the other
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{server: &server{}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(v)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mux.HandleFunc("POST /v1/admin/verify", func(w http.ResponseWriter, _ *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		r := api.VerifyReport{Checked: 2, Different: []store.Verified{}, Repaired: []job.ID{}}
		if n := len(o.verified); n > 0 {
			r, o.verified = o.verified[0], o.verified[1:]
		}
		answer(w, r)
	})
	mux.HandleFunc("POST /v1/admin/sweep", func(w http.ResponseWriter, r *http.Request) {
		var q api.SweepRequest
		_ = json.NewDecoder(r.Body).Decode(&q)
		answer(w, api.SweepReport{DryRun: q.DryRun, Attempts: 9, Orphaned: 2, Blobs: 4, Bytes: 7, Removed: 3})
	})
	mux.HandleFunc("GET /v1/admin/pauses", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, api.PauseList{Pauses: []store.Pause{{Kind: "pool", Name: "gpu", At: at, By: "ops", Reason: "heat"}}})
	})
	mux.HandleFunc("GET /v1/admin/tenants/a", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, store.Tenant{Name: "a", Weight: 2, Override: &store.Overridden{Until: &at}})
	})
	mux.HandleFunc("POST /v1/admin/", func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		answer(w, store.Action{ID: someID, At: at, Actor: "ops", Action: parts[len(parts)-1], Subject: parts[len(parts)-2], Outcome: store.ActionDone})
	})
	for _, action := range []string{"cordon", "uncordon"} {
		mux.HandleFunc("POST /v1/admin/workers/"+action, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, api.WorkersReport{Workers: []string{"w1", "w2"}, Changed: 1})
		})
	}
	mux.HandleFunc("GET /v1/workers", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, api.WorkerList{Workers: []store.Worker{{ID: "w1", Pool: "p"}}, Pools: []api.PoolSummary{{Pool: "p", Workers: 1}}})
	})
	mux.HandleFunc("GET /v1/admin/why-slow", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, api.WhySlow{Verdict: []string{"Looks fail: 4 of 4."}, Queued: 7, Running: 2,
			Dispatchers: []fleet.Report{{Dispatcher: "host/1", Leads: true, Looks: fleet.Timings{Count: 4, Failed: 4, MaxMS: 15000}, ReapStepsMS: map[string]float64{"lease": 3, "expired": 9},
				Waiting: map[string]int{"finish": 5}, MaxConnections: 16}},
			Database: fleet.Database{Locks: 10, LocksMax: 6400, ConnectionsMax: 97, LiveDays: 2, Indexes: 9, Holder: &fleet.Holder{Kind: "session", PID: 42, Name: "pg_dump", Seconds: 4000},
				Settings: map[string]string{"autovacuum": "on", "autovacuum_naptime": "60s", "autovacuum_max_workers": "3"}},
			Tenants: []fleet.TenantQueue{{Tenant: "acme", Queued: 7, OldestSeconds: 61}}, Stopped: []fleet.StoppedWorker{{ID: "w9", Pool: "p", State: "held", Reason: "short of memory"}}})
	})
	mux.HandleFunc("GET /v1/admin/workers/{worker}", func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		n := int64(0)
		if len(o.left) > 0 {
			n, o.left = o.left[0], o.left[1:]
		}
		answer(w, api.WorkerStatus{Worker: store.Worker{ID: r.PathValue("worker")}, Running: n})
	})
	mux.HandleFunc("GET /v1/admin/actions", func(w http.ResponseWriter, r *http.Request) {
		page := api.ActionList{Actions: []store.Action{{ID: someID, At: at, Actor: "ops", Token: "0a1b2c3d", Action: "cordon", Subject: "w1", Reason: "a fan", Outcome: store.ActionDone}}}
		if r.URL.Query().Get("before") == "" {
			page.Next = someID
		}
		answer(w, page)
	})
	mux.HandleFunc("GET /v1/admin/leader", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, store.Leader{Holder: "host/1", Term: 3, Since: at})
	})
	mux.HandleFunc("GET /v1/admin/version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, api.FleetVersion{Dispatcher: "v2", Schema: store.Schema{Has: 21, Wants: 21}, Workers: map[string]int{"v1": 2, "v2": 1}})
	})
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.asked = append(o.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		o.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct{ asked, said string }{
		"cordon w1 -m fan":                      {`POST /v1/admin/workers/w1/cordon {"reason":"fan"}`, "cordon w1: done\n"},
		"uncordon w1":                           {`POST /v1/admin/workers/w1/uncordon {}`, "uncordon w1: done\n"},
		"quarantine w1 --for 5m --reason=flaky": {`POST /v1/admin/workers/w1/quarantine {"reason":"flaky","for":"5m0s"}`, "quarantine w1: done\n"},
		"unquarantine w1":                       {`POST /v1/admin/workers/w1/unquarantine {}`, "unquarantine w1: done\n"},
		"leader":                                {`GET /v1/admin/leader`, "host/1 leads since 2026-01-02T03:04:05Z, term 3\n"},
		"version":                               {`GET /v1/admin/version`, "dispatcher v2\nschema 21, and the dispatcher needs 21\nworkers v1: 2\nworkers v2: 1\n"},
		"drain w1":                              {`POST /v1/admin/workers/w1/cordon {}; GET /v1/admin/workers/w1`, "w1 is cordoned and empty\n"},
		"log --subject w1 -n 1":                 {`GET /v1/admin/actions?limit=1&subject=w1`, "ops (0a1b2c3d)"},
		"log -n 5":                              {`GET /v1/admin/actions?limit=5; GET /v1/admin/actions?before=` + string(someID) + `&limit=4`, "2026-01-02T03:04:05Z"},
		"requeue a b -m stuck":                  {`POST /v1/admin/requeue {"jobs":["a","b"],"reason":"stuck"}`, ": done\n"},
		"requeue --worker w1 -m stuck":          {`POST /v1/admin/requeue {"worker":"w1","reason":"stuck"}`, ": done\n"},
		"pause --tenant a -m bill":              {`POST /v1/admin/pause {"tenant":"a","reason":"bill"}`, ": done\n"},
		"pause":                                 {`GET /v1/admin/pauses`, "pool    gpu   2026-01-02T03:04:05Z  ops  heat\n"},
		"resume --pool gpu":                     {`POST /v1/admin/resume {"pool":"gpu"}`, ": done\n"},
		"pause --batch x":                       {`POST /v1/admin/pause {"batch":"x"}`, ": done\n"},
		"tenant a":                              {`GET /v1/admin/tenants/a`, "overridden by an operator, until 2026-01-02T03:04:05Z\n"},
		"tenant a --weight 0.5 --max-running 0 --label-cap k=2 --for 1h": {`POST /v1/admin/tenants/a/override {"weight":0.5,"max_running":0,"label_caps":{"k":2},"for":"1h0m0s"}`, "override a: done\n"},
		"tenant a --no-label-caps":                                       {`POST /v1/admin/tenants/a/override {"label_caps":{}}`, "override a: done\n"},
		"tenant a --restore":                                             {`POST /v1/admin/tenants/a/restore {}`, "restore a: done\n"},
		"why-slow":                                                       {`GET /v1/admin/why-slow`, "Looks fail: 4 of 4.\n\nqueue       queued 7, dispatched 0, running 2"},
		"verify":                                                         {`POST /v1/admin/verify {}`, "2 batches checked, 0 differ, 0 repaired\n"},
		"sweep --dry-run":                                                {`POST /v1/admin/sweep {"dry_run":true}`, "2 of 9 attempts in the object store have no record, and 4 inputs are unused; together they have 7 bytes\n"},
		"sweep":                                                          {`POST /v1/admin/sweep {}`, "3 objects removed\n"},
	} {
		o := newOperated(t)
		code, out, errs := o.assay(t.Context(), "", append([]string{"admin"}, strings.Fields(args)...)...)
		if asked := strings.Join(o.asked, "; "); code != 0 || asked != want.asked || !strings.Contains(out, want.said) {
			t.Errorf("%s: exit %d, asks for\n%s, want\n%s; says\n%s%s, want\n%s", args, code, asked, want.asked, out, errs, want.said)
		}
	}
}

// A drain waits until two looks in a row find nothing: a claim may be on its way.
func TestAdminDrainWaits(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	o.left = []int64{2, 0, 1, 0, 0, 7}
	code, out, errs := o.assay(t.Context(), "", "admin", "drain", "w1", "--wait", "--every", "1ms")
	if code != 0 || out != "w1 is cordoned and empty\n" || len(o.left) != 1 || !strings.Contains(errs, "w1: 2 jobs and 0 sessions left\n") {
		t.Errorf("exit %d, %d looks left, says %s%s", code, len(o.left), out, errs)
	}
	o.left, o.asked = []int64{2, 1, 0, 0}, nil
	code, _, _ = o.assay(t.Context(), "", "admin", "drain", "w1", "--wait", "--every", "1ms", "--hand-back-after", "1ns", "-m", "disk")
	if asked := strings.Join(o.asked, "\n"); code != 0 || !strings.Contains(asked, `POST /v1/admin/requeue {"worker":"w1","reason":"the worker is drained: disk"}`) {
		t.Errorf("exit %d, asks for\n%s", code, asked)
	}
	o.left = []int64{4}
	if code, out, _ := o.assay(t.Context(), "", "admin", "drain", "w1"); code != 0 || out != "w1 is cordoned; 4 jobs and 0 sessions are left\n" {
		t.Errorf("exit %d, says %s", code, out)
	}
	code, out, _ = o.assay(t.Context(), "", "--json", "admin", "cordon", "w1")
	var a store.Action
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != 0 || a.Action != "cordon" || a.ID != job.ID(someID) {
		t.Errorf("exit %d, %v, says %s", code, err, out)
	}
}

// What differs and is not repaired is an exit code, and every page is read.
func TestAdminVerify(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	bad := store.Verified{Batch: someID, Problems: []string{"one is missing"}}
	o.verified = []api.VerifyReport{{Checked: 20, Different: []store.Verified{}, Next: someID}, {Checked: 3, Different: []store.Verified{bad}}}
	code, out, _ := o.assay(t.Context(), "", "admin", "verify")
	if want := "batch " + string(someID) + ": one is missing\n23 batches checked, 1 differ, 0 repaired\n"; code != 1 || out != want {
		t.Errorf("exit %d, says %s, want %s", code, out, want)
	}
	if len(o.asked) != 2 || !strings.Contains(o.asked[1], `"after":"`+string(someID)+`"`) {
		t.Errorf("asks for %q", o.asked)
	}
	o.verified = []api.VerifyReport{{Checked: 1, Different: []store.Verified{bad}, Repaired: []job.ID{someID}}}
	if code, _, _ := o.assay(t.Context(), "", "admin", "verify", string(someID), "--repair"); code != 0 {
		t.Errorf("exit %d after a repair", code)
	}
	for _, bad := range []string{"tenant a --restore --weight 1", "tenant a --for 1h", "pause --tenant a --pool b", "requeue x"} {
		if code, _, errs := o.assay(t.Context(), "", append([]string{"admin"}, strings.Fields(bad)...)...); code != exitOurs || errs == "" {
			t.Errorf("%s: exit %d, %s", bad, code, errs)
		}
	}
}

// TestWorkersInBulk: workers are chosen by pool, version, labels and state, and a command without a choice is refused.
func TestWorkersInBulk(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct{ asked, said string }{
		"cordon --pool p --version v1 --label k=v -m old": {`POST /v1/admin/workers/cordon {"workers":{"pool":"p","version":"v1","labels":{"k":"v"}},"reason":"old"}`, "2 workers are cordoned; 1 of them changed\n"},
		"cordon --pool p --dry-run":                       {`POST /v1/admin/workers/cordon {"workers":{"pool":"p"},"dry_run":true}`, "w1\nw2\n2 workers would be cordoned\n"},
		"uncordon w1 w2":                                  {`POST /v1/admin/workers/uncordon {"workers":{"names":["w1","w2"]}}`, "2 workers are uncordoned; 1 of them changed\n"},
		"drain --state held":                              {`POST /v1/admin/workers/cordon {"workers":{"state":"held"}}; GET /v1/admin/workers/w1; GET /v1/admin/workers/w2`, "w1 is cordoned and empty\n"},
		"list --pool p --state held":                      {`GET /v1/workers?pool=p&state=held`, "WORKER"},
	} {
		o := newOperated(t)
		code, out, errs := o.assay(t.Context(), "", append([]string{"worker"}, strings.Fields(args)...)...)
		if asked := strings.Join(o.asked, "; "); code != 0 || asked != want.asked || !strings.Contains(out, want.said) {
			t.Errorf("%s: exit %d, asks for\n%s, want\n%s; says\n%s%s, want\n%s", args, code, asked, want.asked, out, errs, want.said)
		}
	}
	o := newOperated(t)
	if code, _, errs := o.assay(t.Context(), "", "worker", "drain"); code == 0 || !strings.Contains(errs, "--pool") || len(o.asked) > 0 {
		t.Errorf("a drain without a choice: exit %d, %s, %v", code, errs, o.asked)
	}
}

// TestDoctorOfFleet: the doctor judges the fleet's Postgres, and names what to do.
func TestDoctorOfFleet(t *testing.T) {
	t.Parallel()
	o := newOperated(t)
	code, out, errs := o.assay(t.Context(), "", "doctor", "--fleet")
	if words := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(words, "ok database connections 1 dispatchers may open 16 of 97") || !strings.Contains(words, "pg_terminate_backend(42)") {
		t.Errorf("exit %d, says\n%s%s", code, out, errs)
	}
}
