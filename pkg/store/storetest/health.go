package storetest

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/store"
)

// testHealth checks that reports replace each other by source, and that running jobs count for their worker's
// pool. It also checks the reported state of a small database.
func testHealth(t *testing.T, f *fixture) {
	ctx := f.Context()
	f.must(f.PutReport(ctx, "a", json.RawMessage(`{"n": 1}`)))
	f.must(f.PutReport(ctx, "b", json.RawMessage(`{"n": 2}`)))
	f.must(f.PutReport(ctx, "a", json.RawMessage(`{"n": 3}`)))
	all, err := f.Reports(ctx, time.Minute)
	f.must(err)
	got := map[string]string{}
	for _, r := range all {
		got[r.Source] = string(r.Body)
		if r.Age < 0 || r.Age > time.Minute || r.At.IsZero() {
			t.Errorf("the report of %s is of %v, %v ago", r.Source, r.At, r.Age)
		}
	}
	if diff := cmp.Diff(map[string]string{"a": `{"n": 3}`, "b": `{"n": 2}`}, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	f.eventually("old reports are left out", func() bool { all, err := f.Reports(ctx, time.Millisecond); f.must(err); return len(all) == 0 })

	testRunningIn(t, f)

	d, err := f.Database(ctx)
	f.must(err)
	if d.LocksMax < 1000 || d.Connections < 1 || d.ConnectionsMax < d.Connections || d.Partitions < 2 || d.Indexes < 5 || d.LiveDays < 1 || d.LiveDays > d.Partitions {
		t.Errorf("the state of the database is %+v", d)
	}
	if n, err := strconv.Atoi(d.Settings["max_connections"]); err != nil || n < 10 || d.Settings["autovacuum"] == "" {
		t.Errorf("the settings of the database are %v", d.Settings)
	}
}

// testRunningIn claims a job as a worker of a pool that the job does not name.
func testRunningIn(t *testing.T, f *fixture) {
	f.must(f.PutWorkers(f.Context(), []store.Worker{{ID: worker, Pool: "there", Slots: 4, StartedAt: time.Now()}}))
	f.submit(newJobs(2)...)
	f.claim(f.schedule(1)[0].Ref)
	stats, err := f.Stats(f.Context())
	f.must(err)
	if diff := cmp.Diff(map[string]int64{"there": 1}, stats.RunningIn); diff != "" {
		t.Errorf("running jobs by pool (-want +got):\n%s", diff)
	}
	groups, err := f.Queue(f.Context())
	f.must(err)
	running, in := int64(0), int64(0)
	for _, g := range groups {
		running, in = running+g.Running, in+g.RunningIn["there"]
	}
	if running != 1 || in != 1 {
		t.Errorf("the queue has %d running jobs, %d of them there: %+v", running, in, groups)
	}
	usage, err := f.Usage(f.Context())
	f.must(err)
	if diff := cmp.Diff(map[string]nouns.Usage{tenant: {Batches: 1}}, usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	l, err := f.Load(f.Context(), worker)
	f.must(err)
	if l.Running != 1 || len(l.Jobs) != 1 || l.Jobs[0].Tenant != tenant || l.Jobs[0].StartedAt.IsZero() || len(l.LiveSessions) != 0 {
		t.Errorf("the load of the worker is %+v", l)
	}
}
