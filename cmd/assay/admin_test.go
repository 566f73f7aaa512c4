package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// operated is a fleet that writes down what operators ask for; the real one is tested in
// internal/httpapi.
type operated struct {
	*server
	mu    sync.Mutex
	asked []string // METHOD PATH?QUERY BODY
	left  []int64  // jobs on the worker, at one look after the other
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
	mux.HandleFunc("POST /v1/admin/", func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		answer(w, store.Action{ID: someID, At: at, Actor: "ops", Action: parts[len(parts)-1], Subject: parts[len(parts)-2], Outcome: store.ActionDone})
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
