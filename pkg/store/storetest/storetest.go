// Package storetest is the specification of store.Store, as tests that every implementation passes.
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Options are the budgets and limits that the tests need small. Zero: any.
type Options struct {
	InfraBudget   int
	PoisonAfter   int
	PoisonWait    time.Duration // zero: a moment
	OpenBatchTTL  time.Duration
	TakeBackAfter time.Duration
	AgeEvery      time.Duration
	RetryDelay    time.Duration // zero: none
}

// Open returns an empty store that is closed when the test ends. Two calls in one test with the same Options
// may share a database.
type Open func(t testing.TB, o Options) store.Store

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"submit", testSubmit},
		{"open batch", testOpenBatch},
		{"uploads", testUploads},
		{"retry batch", testRetryBatch},
		{"schedule", testSchedule},
		{"ageing", testAgeing},
		{"caps", testCaps},
		{"fairness", testFairness},
		{"claim", testClaim},
		{"heartbeat", testHeartbeat},
		{"finish", testFinish},
		{"release", testRelease},
		{"backoff", testBackoff},
		{"poison", testPoison},
		{"outages", testOutages},
		{"incarnations", testIncarnations},
		{"cancel", testCancel},
		{"cancel by label", testCancelLabeled},
		{"reap", testReap},
		{"orphans", testOrphans},
		{"inputs", testInputs},
		{"list of jobs", testJobs},
		{"list of jobs by outcome", testJobsByOutcome},
		{"browse jobs", testBrowseJobs},
		{"browse while jobs change", testBrowseWhileChanging},
		{"summary of a batch", testBatchSummary},
		{"failure classes", testFailureClasses},
		{"map of a batch", testBatchMap},
		{"compare batches", testCompare},
		{"browse batches", testBrowseBatches},
		{"erase", testErase},
		{"read", testRead},
		{"bytes", testBytes},
		{"cursor", testCursor},
		{"races", testRaces},
		{"registry", testRegistry},
		{"leaders", testLeaders},
		{"operations", testOperations},
		{"actions in order", testActionsInOrder},
		{"audited", testAudited},
		{"grants", testGrants},
		{"requeue", testRequeue},
		{"pause", testPause},
		{"override", testOverride},
		{"verify", testVerify},
		{"sessions", testSessions},
		{"claims of keys", testKeyClaims},
		{"requests under a key", testKeyed},
		{"callbacks", testCallbacks},
		{"repeats", testRepeats},
		{"environments", testEnvironments},
		{"keys", testKeys},
		{"batch lease", testBatchLease},
		{"batch lease after an outage", testBatchLeaseAfterAnOutage},
		{"model", testModel},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(t, open)
		})
	}
}

const (
	tenant = "acme"
	pool   = "default"
	worker = "worker-1"
	ttl    = time.Minute
)

// fixture is a store with helpers. A helper ends the test if a step fails that must not fail.
type fixture struct {
	testing.TB
	store.Store
}

func newFixture(t testing.TB, open Open, o Options) *fixture { return &fixture{t, open(t, o)} }

// with returns the fixture for a subtest.
func (f *fixture) with(t testing.TB) *fixture { return &fixture{t, f.Store} }

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) mustBe(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("got error %v, want %v", err, want)
	}
}

// newJob returns a small job with the given name.
func newJob(name string) store.NewJob {
	return store.NewJob{
		ID: job.NewID(), Tenant: tenant, Pool: pool, MaxAttempts: 1,
		Spec:        fmt.Appendf(nil, `{"name":%q,"labels":{"k":"v"},"program":{"python":{"code":"print(1)"}}}`, name),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func newJobs(n int) []store.NewJob {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob(fmt.Sprintf("job-%d", i))
	}
	return jobs
}

func newBatch() store.NewBatch {
	return store.NewBatch{ID: job.NewID(), Tenant: tenant, Name: "a batch", Labels: map[string]string{"run": "7"}}
}

func (f *fixture) submit(jobs ...store.NewJob) job.ID {
	f.Helper()
	id, err := f.SubmitBatch(f.Context(), newBatch(), jobs)
	f.must(err)
	return id
}

func (f *fixture) submitJob(j store.NewJob) job.ID {
	f.Helper()
	id, _, err := f.SubmitJob(f.Context(), j, store.Idempotency{}, 0)
	f.must(err)
	return id
}

func (f *fixture) schedule(window int) []store.Dispatch {
	f.Helper()
	ds, err := f.Schedule(f.Context(), []string{pool}, window)
	f.must(err)
	return ds
}

func (f *fixture) claim(refs ...store.Ref) []store.Claimed {
	f.Helper()
	return f.claimAs(worker, ttl, refs...)
}

// claimAs claims for a worker whose leases last ttl.
func (f *fixture) claimAs(worker string, ttl time.Duration, refs ...store.Ref) []store.Claimed {
	f.Helper()
	claims := make([]store.Claim, len(refs))
	for i, r := range refs {
		claims[i] = store.Claim{Ref: r, Worker: worker}
	}
	got, err := f.Claim(f.Context(), ttl, claims)
	f.must(err)
	return got
}

// run schedules all queued jobs and claims them.
func (f *fixture) run() []store.Claimed {
	f.Helper()
	var refs []store.Ref
	for _, d := range f.schedule(1 << 20) {
		refs = append(refs, d.Ref)
	}
	got := f.claim(refs...)
	for _, c := range got {
		if c.Lease == 0 {
			f.Fatalf("claim of %v was refused", c.Ref)
		}
	}
	return got
}

// running submits one job without a batch and brings it to running.
func (f *fixture) running(j store.NewJob) store.LeaseRef {
	f.Helper()
	f.submitJob(j)
	for _, c := range f.run() {
		if c.Job == j.ID {
			return store.LeaseRef{Job: c.Job, Lease: c.Lease}
		}
	}
	f.Fatal("the job was not scheduled")
	return store.LeaseRef{}
}

func finishOf(l store.LeaseRef, o job.Outcome) store.Finish {
	raw, err := json.Marshal(job.Result{Outcome: o, Message: "by " + fmt.Sprint(l.Lease), Stdout: job.Output{Text: "out", Bytes: 3}})
	if err != nil {
		panic(err)
	}
	return store.Finish{Worker: worker, LeaseRef: l, Outcome: o, Result: raw}
}

func (f *fixture) finish(l store.LeaseRef, o job.Outcome) store.FinishStatus {
	f.Helper()
	return f.finishAs(worker, l, o)
}

func (f *fixture) finishAs(name string, l store.LeaseRef, o job.Outcome) store.FinishStatus {
	f.Helper()
	fin := finishOf(l, o)
	fin.Worker = name
	got, err := f.Finish(f.Context(), []store.Finish{fin})
	f.must(err)
	if len(got) != 1 {
		f.Fatalf("one finish, %d statuses", len(got))
	}
	return got[0]
}

// ours returns the leases as their worker names them.
func ours(ls ...store.LeaseRef) (out []store.Held) {
	for _, l := range ls {
		out = append(out, store.Held{LeaseRef: l, Worker: worker})
	}
	return out
}

func leaseOf(c store.Claimed) store.LeaseRef { return store.LeaseRef{Job: c.Job, Lease: c.Lease} }

func (f *fixture) revoke(l store.LeaseRef, want bool) {
	f.Helper()
	done, err := f.RevokeAssignment(f.Context(), l)
	f.must(err)
	if done != want {
		f.Errorf("lease %d of job %s taken back: %v", l.Lease, l.Job, done)
	}
}

func (f *fixture) state(id job.ID) job.State {
	f.Helper()
	j, err := f.Job(f.Context(), tenant, id)
	f.must(err)
	return j.State
}

func (f *fixture) wantState(id job.ID, want job.State) {
	f.Helper()
	if got := f.state(id); got != want {
		f.Fatalf("job is %s, want %s", got, want)
	}
}

func (f *fixture) result(id job.ID) job.Result {
	f.Helper()
	raw, err := f.Result(f.Context(), tenant, id)
	f.must(err)
	return f.decode(raw)
}

func (f *fixture) decode(raw json.RawMessage) job.Result {
	f.Helper()
	var r job.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		f.Fatalf("result %s: %v", raw, err)
	}
	return r
}

func (f *fixture) batch(id job.ID) *job.Batch {
	f.Helper()
	b, err := f.Batch(f.Context(), tenant, id)
	f.must(err)
	return b
}

// results reads all pages of a batch's results.
func (f *fixture) results(batch job.ID, page int) []job.Result {
	f.Helper()
	var all []job.Result
	for after := store.Cursor(0); ; {
		raws, next, err := f.Results(f.Context(), tenant, batch, after, page)
		f.must(err)
		for _, raw := range raws {
			all = append(all, f.decode(raw))
		}
		if len(raws) == 0 {
			return all
		}
		after = next
	}
}

func (f *fixture) reap() store.ReapStats {
	f.Helper()
	st, err := f.ReapLeases(f.Context())
	f.must(err)
	rest, err := f.Reap(f.Context())
	st.Add(rest)
	f.must(err)
	return st
}

// eventually waits for an event that depends on the store's clock.
func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	f.Fatalf("%s did not happen", what)
}
