package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/test/prom"
)

const sleepers = 20

// TestFiguresCountLongJobs runs 20 jobs that sleep. Every figure for operators or scalers must be
// 20, long after the jobs have freed their slots. No scaler may remove their worker.
func TestFiguresCountLongJobs(t *testing.T) {
	t.Parallel()
	f := start(t)
	line := `{"program":{"python":{"code":"import time; time.sleep(3600)"}},"policy":{"wall":"1h","memory":"32Mi"}}` + "\n"
	b, err := f.api.SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(strings.Repeat(line, sleepers)))
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	t.Cleanup(func() { // before the fleet is stopped, which would wait for them
		if _, err := f.api.CancelBatch(context.WithoutCancel(t.Context()), b.ID); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("other figures: %v", wrong)
		}
	})
	eventually(t, "all figures say 20", func() bool {
		wrong = f.figures(t)
		return len(wrong) == 0
	})
	// The worker's next heartbeats are of jobs that have run for seconds.
	for since := time.Now(); time.Since(since) < 6*time.Second; time.Sleep(500 * time.Millisecond) {
		if wrong = f.figures(t); len(wrong) > 0 {
			t.Fatalf("a while later: %v", wrong)
		}
	}
	f.scalersKeep(t)
	if _, err := f.api.CancelBatch(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all figures say 0", func() bool {
		now, err := f.api.Now(t.Context())
		return err == nil && now.Pools[0].Running == 0 && f.backlog(t) == 0
	})
	if n := kedaReplicas(f.backlog(t), 1); n != 0 {
		t.Errorf("without work KEDA keeps %d workers", n)
	}
	loop := job.Spec{Program: python("while True: pass"), Policy: []byte(`{"wall":"10m","cpu_time":"10m"}`)}
	looping, err := f.api.Submit(t.Context(), loop)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a loop uses cores", func() bool {
		now, err := f.api.Now(t.Context())
		return err == nil && now.Pools[0].Running == 1 && now.Pools[0].CoresUsed > 0.2
	})
	if _, err := f.api.Cancel(t.Context(), looping.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loop has ended", func() bool {
		j, err := f.api.Job(t.Context(), looping.ID, time.Second)
		return err == nil && j.State.Terminal()
	})
}

// figures returns the figures that are not 20.
func (f *fleet) figures(t *testing.T) (wrong []string) {
	t.Helper()
	now, err := f.api.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var queue, in int64
	for _, g := range now.Queue {
		queue, in = queue+g.Running, in+g.RunningIn["default"]
	}
	is := map[string]int64{"queue": queue, "queue by pool": in}
	for _, p := range now.Pools {
		is["pool "+p.Pool], is["pool "+p.Pool+", as busy"] = int64(p.Running), int64(p.Busy)
	}
	for _, w := range now.Workers {
		is["worker"], is["worker, as busy"] = int64(w.Running), int64(w.Busy)
		if w.Free < 1 || w.Cores < 1 {
			wrong = append(wrong, fmt.Sprintf("%d free, %g cores of the worker", w.Free, w.Cores))
		}
	}
	page := f.scrape(t)
	for _, series := range []string{`assay_jobs{pool="default",state="running"}`, `assay_slots{pool="default",use="busy"}`, `assay_backlog_slots{pool="default"}`} {
		for _, s := range page.Query(t, series, 0) {
			is[series] += int64(s.F)
		}
	}
	for what, n := range is {
		if n != sleepers {
			wrong = append(wrong, fmt.Sprintf("%s: %d", what, n))
		}
	}
	for what, text := range map[string]string{"top": f.shown(t, "top", "--once"), "worker list": f.shown(t, "worker", "list")} {
		if words := strings.Join(strings.Fields(text), " "); !strings.Contains(words, "running 20") && !strings.Contains(words, " 20 ") {
			wrong = append(wrong, fmt.Sprintf("%s: %s", what, text))
		}
	}
	return wrong
}

func (f *fleet) shown(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := f.assay(t, args...)
	if err != nil {
		t.Fatalf("assay %v: %v\n%s%s", args, err, stdout, stderr)
	}
	return stdout
}

func (f *fleet) page(t *testing.T, path string) string {
	t.Helper()
	return got(t, http.DefaultClient, f.URL()+path)
}

// scrape reads the dispatcher's metrics like a cluster's Prometheus, which adds the namespace.
func (f *fleet) scrape(t *testing.T) *prom.DB {
	t.Helper()
	db := prom.New(time.Minute)
	db.Load(t, f.page(t, "/metrics"), map[string]string{"namespace": "assay"})
	return db
}

// backlog evaluates the query of the chart's ScaledObject.
func (f *fleet) backlog(t *testing.T) float64 {
	t.Helper()
	found := f.scrape(t).Query(t, `max(assay_backlog_slots{pool="default",namespace="assay"})`, 0)
	if len(found) != 1 {
		t.Fatalf("the query of the ScaledObject has the result %v", found)
	}
	return found[0].F
}

// slotsPerWorker is the chart's default.
const slotsPerWorker = 16

// scalersKeep applies the arithmetic of the HPA and of KEDA to the exported metric, period after
// period, from different numbers of workers. All end at enough workers for the running jobs.
func (f *fleet) scalersKeep(t *testing.T) {
	t.Helper()
	metric := f.backlog(t)
	for _, begin := range []int{1, 2, 3, 20} {
		n := begin
		for range 10 {
			n = hpaReplicas(metric, n, 1)
		}
		if float64(n)*slotsPerWorker*(1+hpaTolerance) < sleepers {
			t.Errorf("from %d workers the HPA makes %d, of %d jobs each, for %d jobs", begin, n, slotsPerWorker, sleepers)
		}
	}
	for _, begin := range []int{0, 1, 2, 20} {
		n := begin
		for range 10 {
			n = kedaReplicas(metric, n)
		}
		if float64(n)*slotsPerWorker*(1+hpaTolerance) < sleepers {
			t.Errorf("from %d workers KEDA makes %d, of %d jobs each, for %d jobs", begin, n, slotsPerWorker, sleepers)
		}
	}
	if metric != sleepers {
		t.Errorf("the scalers read %g of %d jobs", metric, sleepers)
	}
}

// hpaTolerance is --horizontal-pod-autoscaler-tolerance.
const hpaTolerance = 0.1

// hpaReplicas is GetExternalPerPodMetricReplicas of Kubernetes' replica_calculator.go, for a target
// of the type AverageValue. Within the tolerance nothing changes, else the metric is divided by the
// target and rounded up.
func hpaReplicas(metric float64, now, least int) int {
	milli := int64(math.Ceil(metric * 1000))
	target := int64(slotsPerWorker * 1000)
	wanted := now
	if ratio := float64(milli) / (float64(target) * float64(now)); math.Abs(1-ratio) > hpaTolerance {
		wanted = int(math.Ceil(float64(milli) / float64(target)))
	}
	return max(wanted, least)
}

// kedaReplicas is one period of KEDA's executor, after its cooldown. The activation threshold
// decides between none and one, the HPA of the ScaledObject between one and the maximum. The
// chart's ScaledObject has minReplicaCount 0 and activationThreshold 0.
func kedaReplicas(metric float64, now int) int {
	active := metric > 0
	switch {
	case !active:
		return 0
	case now == 0:
		return 1
	}
	return hpaReplicas(metric, now, 1)
}
