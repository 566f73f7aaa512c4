package ui_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// The overview shows waiting jobs with their reasons, the ended jobs, and to operators the users and workers of the whole
// fleet. Other visitors see their own tenant.
func TestOverview(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.submit("one", "ended", nil, python("1"), python("2"), python("3"))
	f.finish("w1", f.claim("w1"), func(c store.Claimed) job.Result {
		r := job.Result{Outcome: job.Succeeded}
		switch c.Job {
		case f.jobsOf("one", c.BatchID)[0].ID:
			r.Outcome = job.Failed
		case f.jobsOf("one", c.BatchID)[1].ID:
			r.Outcome = job.Lost
		}
		return r
	})
	f.submit("two", "other", nil, python("1"))
	f.claim("w1") // of tenant two: it runs
	f.submit("one", "waiting", nil, python("1"), python("2"))
	ws := []store.Worker{
		{ID: "w1", Pool: "default", Slots: 4, StartedAt: time.Now(), Load: store.WorkerLoad{Running: 1, Cores: 4, CoresUsed: 1.5, MemoryUsed: 3 << 30, Memory: 8 << 30, DiskUsed: 5 << 30, Disk: 20 << 30}},
		{ID: "worker-two", Pool: "default", Slots: 4, StartedAt: time.Now(), Held: "memory pressure is 40 %"},
	}
	if err := f.store.PutWorkers(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	alerts := []string{"Jobs that the fleet lost in the last hour: 1", `k-bad"`}
	common := []string{`<a href="/ui/" aria-current="page">Overview</a>`, "1 succeeded", "1 failed", "0 without a verdict", "1 lost", "jobs in 2 min", `id="chart-ended"`, "oldest <time"}
	foreign := []string{"tenant=two", "worker-two", "memory pressure", "1.5 of 4", "3.00 GiB of 8.00 GiB", "5.00 GiB of 20.0 GiB", "of all tenants"}
	for _, c := range []struct {
		key       string
		has, lack []string
	}{
		{opKey, append(append(foreign, common...), alerts...), nil},
		{oneKey, append(append([]string{"of <bdi>one</bdi>", `id="pools"`}, common...), alerts...), append([]string{`id="uses"`, `id="workers"`}, foreign[:3]...)},
		{otherKey, []string{"No job waits.", "No job ended in the last hour.", "of <bdi>two</bdi>"}, append([]string{"tenant=one", "Jobs that the fleet lost"}, foreign[:3]...)},
	} {
		page := f.as(c.key).page("/ui/")
		for _, want := range c.has {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page has no %q", c.key, want)
			}
		}
		for _, not := range c.lack {
			if strings.Contains(page, not) {
				t.Errorf("%s: the page has %q", c.key, not)
			}
		}
		if t.Failed() {
			t.Log(page)
		}
	}
}

// A fleet without trouble has no alerts and no lost jobs.
func TestOverviewOfAHealthyFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	w := store.Worker{ID: "w1", Pool: "default", Slots: 4, StartedAt: time.Now(), Load: store.WorkerLoad{Cores: 4}}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{w}); err != nil {
		t.Fatal(err)
	}
	f.submit("one", "ended", nil, python("1"), python("2"))
	f.finish("w1", f.claim("w1"), func(store.Claimed) job.Result { return job.Result{Outcome: job.Succeeded} })
	page := f.as(opKey).page("/ui/")
	if !strings.Contains(page, "Nothing needs attention.") || strings.Contains(page, `class="k-`) || !strings.Contains(page, "2 succeeded, 0 failed, 0 without a verdict, 0 lost") {
		t.Error(page)
	}
}

// The overview shows how many jobs ran in the last hour, unless it cannot list all of them.
func TestOverviewOfRunningJobs(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	f := newFleet(t, func(c *ui.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	f.submit("one", "b", nil, python("1"), python("2"), python("3"))
	f.claim("w1")
	ahead.Store(int64(10 * time.Minute))
	page := f.as(opKey).page("/ui/")
	if !strings.Contains(page, "at most 3.0, as means of 2 minutes") || strings.Count(page, ",3") < 4 || !strings.Contains(page, "No job ended in the last hour.") {
		t.Error(page)
	}
	ahead.Store(0)
	f.fill(1001)
	if page := f.as(oneKey).page("/ui/"); !strings.Contains(page, "too many for this chart") || strings.Contains(page, "chart-running") {
		t.Error(page)
	}
}

// Open overviews share one chart: a poll does not read it again.
func TestOverviewPollsNoChart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := f.as(opKey)
	b.page("/ui/")
	before := f.asked.n.Load()
	for range 10 {
		b.get("/ui/", "HX-Request", "true")
	}
	if n := f.asked.n.Load() - before; n != 0 {
		t.Errorf("10 polls read batches and jobs %d times", n)
	}
}
