package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// TestPoolsOfJobs: a job may name an existing pool, and reports the reason for its wait. A single job does not overtake
// jobs that wait for the same workers.
func TestPoolsOfJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Pools = placement.Pools{"apart": {Exclusive: true}} })
	host, err := json.Marshal(policy.Host{Isolations: []policy.Isolation{policy.Task}, Cores: 2, Memory: job.GiB})
	if err != nil {
		t.Fatal(err)
	}
	offer := []byte(`{"labels":{"tpu":"5"}}`)
	workers := []store.Worker{{ID: "a", Pool: pool, Slots: 1, Host: host}, {ID: "b", Pool: "gpu", Slots: 1, Host: host}, {ID: "c", Pool: "apart", Slots: 2, Host: host, Offer: offer}}
	if err := f.store.PutWorkers(t.Context(), workers); err != nil {
		t.Fatal(err)
	}
	f.runner.hold()

	const program = `"program":{"python":{"code":"1"}},"policy":{"enforce":"report"}}`
	resp, body := f.do("POST", "/v1/jobs", `{"pool":"gup",`+program)
	checkProblem(t, resp, body, 422, "pool", 0)
	if !strings.Contains(body, "there are apart, default, gpu") {
		t.Errorf("it does not say which there are: %s", body)
	}
	resp, body = f.do("POST", "/v1/batches", lines(1)+`{"pool":"gup",`+program, "Content-Type", ndjson)
	checkProblem(t, resp, body, 422, "pool", 2)
	resp, body = f.do("POST", "/v1/sessions", `{"pool":"gup"}`)
	checkProblem(t, resp, body, 422, "pool", 0)
	f.empty()

	var a api.Accepted
	for spec, want := range map[string]string{
		`{"pool":"apart","requires":{"gpu":"1"},`: `no worker of pool "apart" is connected with what the job needs (label gpu=1)`,
		`{"requires":{"tpu":"5"},`:                `; pool apart could run it, if the job named it`,
		`{"requires":{"tpu":"6"},`:                `with what the job needs (label tpu=6)`,
	} {
		f.want(http.StatusCreated, &a, "POST", "/v1/jobs", spec+program)
		var j job.Job
		f.want(http.StatusOK, &j, "GET", a.URL, "")
		if j.State != job.Queued || !strings.HasSuffix(j.Message, want) {
			t.Errorf("%s is %s: %s", spec, j.State, j.Message)
		}
	}

	var fleet api.WorkerList
	f.want(http.StatusOK, &fleet, "GET", "/v1/workers", "")
	sums := []api.PoolSummary{{Pool: "apart", Workers: 1, Slots: 2, Free: 2, Exclusive: true}, {Pool: "default", Workers: 1, Slots: 1, Free: 1}, {Pool: "gpu", Workers: 1, Slots: 1, Free: 1}}
	if !slices.Equal(fleet.Pools, sums) {
		t.Errorf("pools %+v", fleet.Pools)
	}

	// While jobs wait for pool gpu, a job for any pool queues behind them. A job for the pool that runs none of them
	// does not wait.
	f.want(http.StatusCreated, nil, "POST", "/v1/batches", strings.Repeat(`{"pool":"gpu",`+program+"\n", 5), "Content-Type", ndjson)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the list of waiting jobs may be old
		f.want(http.StatusCreated, &a, "POST", "/v1/jobs", "{"+program)
		if a.State == job.Queued {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a job passes those of a pool that could run it")
		}
	}
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", `{"pool":"apart",`+program)
	if a.State == job.Queued {
		t.Error("a job waits behind those of another pool")
	}
	f.runner.release()
}
