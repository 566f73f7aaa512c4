package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// end records a result with a message.
func (f *fixture) end(l store.LeaseRef, r job.Result) {
	f.Helper()
	raw, err := json.Marshal(r)
	f.must(err)
	got, err := f.Finish(f.Context(), []store.Finish{{Worker: worker, LeaseRef: l, Outcome: r.Outcome, Result: raw}})
	f.must(err)
	if got[0] != store.Recorded {
		f.Fatalf("the result was %s", got[0])
	}
}

// imaged returns a small job in an image.
func imaged(name, image string, priority int) store.NewJob {
	j := newJob(name)
	j.Priority = priority
	j.Spec = fmt.Appendf(nil, `{"name":%q,"labels":{"image":"a label"},"image":%q,"program":{"python":{"code":"\u0000"}}}`, name, image)
	return j
}

// testBrowseJobs checks the fields of listed jobs, and the jobs that each filter selects.
func testBrowseJobs(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	jobs := []store.NewJob{imaged("alpha 1", "python", 3), imaged("alpha 2", "node", 0), imaged("beta", "python", 0), imaged("graded", "node", 0), imaged("waits", "python", 0)}
	batch := f.submit(jobs[:4]...)
	for _, c := range f.run() {
		switch l := leaseOf(c); c.Job {
		case jobs[0].ID:
			f.end(l, job.Result{Outcome: job.Failed, Message: "No <such> file: \"ä\\b\""})
		case jobs[1].ID:
			f.end(l, job.Result{Outcome: job.Exception, Message: "it ended with an uncaught exception", Stdout: job.Output{Text: `,"exception":{"type":"Fake"`},
				Exception: &job.ExceptionInfo{Type: "ValueError", Message: "not\n7", Traceback: "…"}})
		case jobs[2].ID:
			f.end(l, job.Result{Outcome: job.Succeeded})
		case jobs[3].ID:
			f.end(l, job.Result{Outcome: job.Failed, Tests: &job.TestsResult{Cases: []job.CaseResult{
				{Name: "good", Passed: true, Message: "well"}, {Name: "bad", Message: "returned 1, expected 2"}, {Name: "worse", Message: "no"}}}})
		}
	}
	f.submitJob(jobs[4])
	said := map[string]string{}
	page, err := f.BrowseJobs(ctx, tenant, store.JobQuery{Limit: 10})
	f.must(err)
	for _, j := range page.Jobs {
		said[j.Name] = fmt.Sprintf("%s %d %s %d %s", j.Image, j.Priority, j.Outcome, j.Attempts, j.Message)
	}
	if diff := cmp.Diff(map[string]string{
		"alpha 1": `python 3 failed 1 No <such> file: "ä\b"`, "alpha 2": "node 0 exception 1 ValueError: not\n7", "beta": "python 0 succeeded 1 ",
		"graded": "node 0 failed 1 returned 1, expected 2", "waits": "python 0  0 ",
	}, said); diff != "" {
		t.Errorf("what the list says (-want +got):\n%s", diff)
	}
	for what, c := range map[string]struct {
		filter store.JobFilter
		want   []string
	}{
		"name":            {store.JobFilter{Name: "alpha 1"}, []string{"alpha 1"}},
		"part of a name":  {store.JobFilter{Name: "alpha"}, nil},
		"prefix":          {store.JobFilter{NamePrefix: "alpha"}, []string{"alpha 1", "alpha 2"}},
		"image":           {store.JobFilter{Image: "node"}, []string{"alpha 2", "graded"}},
		"a label's image": {store.JobFilter{Image: "a label"}, nil},
		"failed":          {store.JobFilter{Failed: true, Batch: batch}, []string{"alpha 1", "alpha 2", "graded"}},
		"worker":          {store.JobFilter{Worker: worker}, []string{"alpha 1", "alpha 2", "beta", "graded"}},
		"another worker":  {store.JobFilter{Worker: "nobody"}, nil},
		"message":         {store.JobFilter{Text: "no <SUCH>"}, []string{"alpha 1"}},
		"quotes":          {store.JobFilter{Text: `"ä\b"`}, []string{"alpha 1"}},
		"exception":       {store.JobFilter{Text: "valueerror: NOT"}, nil}, // these are two places of the record
		"its type":        {store.JobFilter{Text: "valueerror"}, []string{"alpha 2"}},
		"a failed test":   {store.JobFilter{Text: "expected 2"}, []string{"graded"}},
		"the record":      {store.JobFilter{Text: "exit_code"}, nil},
		"until":           {store.JobFilter{Until: time.Now().Add(-time.Hour)}, nil},
		"until later":     {store.JobFilter{Until: time.Now().Add(time.Hour), Name: "waits"}, []string{"waits"}},
		"short":           {store.JobFilter{MaxDuration: time.Hour}, []string{"alpha 1", "alpha 2", "beta", "graded"}},
		"long":            {store.JobFilter{MinDuration: time.Hour}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			got := f.with(t).jobNames(c.filter, 2)
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
}

// testBrowseWhileChanging checks that pages list each job that existed at the first page once. Other jobs are
// submitted, started and ended meanwhile.
func testBrowseWhileChanging(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	jobs := newJobs(30)
	f.submit(jobs[:15]...)
	for _, j := range jobs[15:] {
		f.submitJob(j)
	}
	seen := map[job.ID]int{}
	for before := job.ID(""); ; {
		page, err := f.BrowseJobs(t.Context(), tenant, store.JobQuery{Before: before, Limit: 4})
		f.must(err)
		for _, j := range page.Jobs {
			seen[j.ID]++
		}
		f.submit(newJobs(3)...)
		for _, d := range f.schedule(2) {
			f.finish(leaseOf(f.claim(d.Ref)[0]), job.Failed)
		}
		if before = page.Next; before == "" {
			break
		}
	}
	for _, j := range jobs {
		if seen[j.ID] != 1 {
			t.Errorf("job %s was seen %d times", j.ID, seen[j.ID])
		}
	}
}

// gradedResult returns the result of a graded job that failed, from the outcomes and messages of its cases.
func gradedResult(exception string, cases ...job.CaseResult) job.Result {
	r := job.Result{Outcome: job.Failed, Message: "0 of 3 cases passed", Tests: &job.TestsResult{Failed: len(cases), Total: len(cases), Cases: cases}}
	if exception != "" {
		r.Exception = &job.ExceptionInfo{Type: exception, Message: "'k'", Traceback: "…"}
	}
	return r
}

// failureClasses has graded results by their failure class.
func failureClasses() map[job.Outcome]job.Result {
	pass := job.CaseResult{Name: `a "passed":false,"outcome":"lost"`, Passed: true, Outcome: job.Succeeded, Got: `,"passed":false,"outcome":"lost"`}
	long := strings.Repeat("1, ", 1000)
	return map[job.Outcome]job.Result{
		job.TimedOut:    gradedResult("", pass, job.CaseResult{Name: "slow", Outcome: job.TimedOut, Got: long, Expected: long, Message: "stopped after 2.5s"}, job.CaseResult{Name: "b", Outcome: job.Failed, Message: "wrong"}),
		job.Failed:      gradedResult("KeyError", pass, job.CaseResult{Name: "b", Outcome: job.Failed, Message: "f(1): returned [1, 2], expected [1]"}, job.CaseResult{Name: "c", Outcome: job.Exception, Message: "f(2): raised KeyError: 'k'"}),
		job.Exception:   gradedResult("KeyError", job.CaseResult{Name: "c", Outcome: job.Exception, Message: "f(2): raised KeyError: 'k'"}, job.CaseResult{Name: "slow", Outcome: job.TimedOut, Message: "stopped"}),
		job.OutOfMemory: gradedResult("", job.CaseResult{Name: "big", Outcome: job.OutOfMemory, Message: "its memory was over"}, job.CaseResult{Name: "d", Outcome: job.OutcomeCanceled}),
		job.Signaled:    gradedResult("", job.CaseResult{Name: "crash", Outcome: job.Signaled}),
	}
}

// A failed graded job has the failure class of its first failed case: in lists, in filters and in the
// summary.
func testFailureClasses(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	classes := failureClasses()
	var jobs []store.NewJob
	for _, o := range slices.Sorted(maps.Keys(classes)) {
		jobs = append(jobs, newJob(string(o)))
	}
	jobs = append(jobs, newJob("plain time-out"), newJob("plain failure"), newJob("success"))
	batch := f.submit(jobs...)
	byID := map[job.ID]string{}
	for i, name := range append(slices.Sorted(maps.Keys(classes)), "plain time-out", "plain failure", "success") {
		byID[jobs[i].ID] = string(name)
	}
	for _, c := range f.run() {
		switch name := byID[c.Job]; name {
		case "plain time-out":
			f.end(leaseOf(c), job.Result{Outcome: job.TimedOut})
		case "plain failure":
			f.end(leaseOf(c), job.Result{Outcome: job.Failed})
		case "success":
			f.end(leaseOf(c), job.Result{Outcome: job.Succeeded})
		default:
			f.end(leaseOf(c), classes[job.Outcome(name)])
		}
	}
	page, err := f.BrowseJobs(ctx, tenant, store.JobQuery{JobFilter: store.JobFilter{Batch: batch}, Limit: 100})
	f.must(err)
	got := map[string]string{}
	for _, j := range page.Jobs {
		got[j.Name] = string(j.Failure) + ": " + j.Message
	}
	if diff := cmp.Diff(map[string]string{
		"timed_out": "timed_out: stopped after 2.5s", "failed": "failed: f(1): returned [1, 2], expected [1]", "exception": "exception: f(2): raised KeyError: 'k'",
		"out_of_memory": "out_of_memory: its memory was over", "signaled": "signaled: ",
		"plain time-out": "timed_out: ", "plain failure": "failed: ", "success": ": ",
	}, got); diff != "" {
		t.Errorf("failure classes and messages (-want +got):\n%s", diff)
	}
	for class, want := range map[job.Outcome][]string{
		job.TimedOut: {"plain time-out", "timed_out"}, job.Failed: {"failed", "plain failure"}, job.Exception: {"exception"},
		job.OutOfMemory: {"out_of_memory"}, job.Signaled: {"signaled"}, job.Lost: nil,
	} {
		names := f.jobNames(store.JobFilter{Batch: batch, Failure: class}, 2)
		slices.Sort(names)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("jobs of class %s (-want +got):\n%s", class, diff)
		}
	}
	s, err := f.BatchSummary(ctx, tenant, batch)
	f.must(err)
	if diff := cmp.Diff(map[job.Outcome]int64{job.TimedOut: 2, job.Failed: 2, job.Exception: 1, job.OutOfMemory: 1, job.Signaled: 1}, s.Failures); diff != "" {
		t.Errorf("failures of the summary (-want +got):\n%s", diff)
	}
	var clusters []string
	for _, c := range s.Clusters {
		clusters = append(clusters, fmt.Sprintf("%s %s %s %s", c.Outcome, c.Failure, c.Exception, c.Message))
	}
	slices.Sort(clusters)
	if diff := cmp.Diff([]string{
		"failed exception KeyError f(…): raised KeyError: …", "failed failed  ", "failed failed  f(…): returned […], expected […]",
		"failed out_of_memory  its memory was over", "failed signaled  ", "failed timed_out  stopped after …s", "timed_out timed_out  ",
	}, clusters); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// A summary adds up, and groups failures of one kind.
func testBatchSummary(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	batch := f.submit(newJobs(8)...)
	for n, c := range f.run()[:7] {
		switch l := leaseOf(c); {
		case n < 3:
			f.end(l, job.Result{Outcome: job.Exception, Message: "it ended with an uncaught exception", Exception: &job.ExceptionInfo{Type: "KeyError", Message: fmt.Sprintf("'k%d' at 0x%x\nmore", n, n)}})
		case n < 5:
			f.end(l, job.Result{Outcome: job.TimedOut, Message: fmt.Sprintf("stopped after %d.5s", n)})
		default:
			f.finish(l, job.Succeeded)
		}
	}
	s, err := f.BatchSummary(ctx, tenant, batch)
	f.must(err)
	var got []string
	for _, c := range s.Clusters {
		got = append(got, fmt.Sprintf("%d %s %s %s", c.Jobs, c.Outcome, c.Exception, c.Message))
	}
	if diff := cmp.Diff([]string{"3 exception KeyError … at …", "2 timed_out  stopped after …s"}, got); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	ran := int64(0)
	for _, b := range s.Durations {
		ran += b.Jobs
	}
	if s.Sampled != 7 || s.SampledOf != 7 || ran != 7 || s.Rate <= 0 || s.ETA <= 0 || s.Batch.Counts[job.Running] != 1 {
		t.Errorf("summary %+v", s)
	}
	_, err = f.BatchSummary(ctx, "another", batch)
	f.mustBe(err, job.ErrNotFound)
}

// A map has exactly the jobs of its batch, in parts of any size. Other jobs may be submitted between them.
func testBatchMap(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	var mine []store.NewJob
	a, b := store.NewBatch{ID: job.NewID(), Tenant: tenant}, store.NewBatch{ID: job.NewID(), Tenant: "another"}
	for _, o := range []store.NewBatch{a, b} {
		_, _, err := f.OpenBatch(ctx, o)
		f.must(err)
	}
	for n := range 40 {
		part := newJobs(1 + n%3)
		if n%2 == 0 {
			mine = append(mine, part...)
			f.must(f.AppendJobs(ctx, a.ID, part))
		} else if n%5 == 0 {
			f.submitJob(part[0])
		} else {
			f.must(f.AppendJobs(ctx, b.ID, part))
		}
	}
	_, err := f.BatchMap(ctx, tenant, a.ID, "", 10)
	f.mustBe(err, job.ErrNotFound) // it is open
	f.must(f.SealBatch(ctx, a.ID, int64(len(mine))))
	f.finish(leaseOf(f.claim(f.schedule(1)[0].Ref)[0]), job.Failed)
	var want []job.ID
	for _, j := range mine {
		want = append(want, j.ID)
	}
	for _, n := range []int{1, 7, 1000} {
		var got []job.ID
		for after := job.ID(""); ; {
			m, err := f.BatchMap(ctx, tenant, a.ID, after, n)
			f.must(err)
			for _, c := range m.Cells {
				got = append(got, c.ID)
				j, err := f.Job(ctx, tenant, c.ID)
				f.must(err)
				if c.State != j.State || j.Result != nil && c.Outcome != j.Result.Outcome {
					t.Errorf("cell %+v of a job that is %s", c, j.State)
				}
			}
			if after = m.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d at a time (-want +got):\n%s", n, diff)
		}
	}
	_, err = f.BatchMap(ctx, "another", a.ID, "", 10)
	f.mustBe(err, job.ErrNotFound)
	empty, err := f.BatchMap(ctx, tenant, f.submit(), "", 10)
	f.must(err)
	if len(empty.Cells) > 0 || empty.Next != "" {
		t.Errorf("the map of nothing: %+v", empty)
	}
}

// A comparison pairs jobs by name where possible, and lists each flip once.
func testCompare(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	run := func(names []string, ends ...job.Outcome) job.ID {
		var jobs []store.NewJob
		for _, n := range names {
			jobs = append(jobs, newJob(n))
		}
		id := f.submit(jobs...)
		for _, c := range f.run() {
			n := slices.IndexFunc(jobs, func(j store.NewJob) bool { return j.ID == c.Job })
			if ends[n] != "" {
				f.finish(leaseOf(c), ends[n])
			}
		}
		return id
	}
	a := run([]string{"1", "2", "3", "4", "5", "6", "7"}, job.Succeeded, job.Succeeded, job.Failed, job.Failed, job.TimedOut, job.Succeeded, job.Failed)
	b := run([]string{"8", "6", "5", "4", "3", "2", "1"}, job.Succeeded, job.Lost, job.Failed, job.Failed, job.Succeeded, job.Failed, job.Failed)
	var flips []string
	var c *store.Comparison
	for from := 0; ; {
		var err error
		c, err = f.CompareBatches(ctx, tenant, a, b, from, 2)
		f.must(err)
		for _, x := range c.Flips {
			flips = append(flips, fmt.Sprint(x.Name, " ", x.OutcomeA, " ", x.OutcomeB))
			if x.Labels["k"] != "v" || fmt.Sprint(x.Position+1) != x.Name {
				t.Errorf("flip %s: position %d, labels %v", x.Name, x.Position, x.Labels)
			}
		}
		if from = c.FlipsNext; from == 0 {
			break
		}
	}
	if diff := cmp.Diff([]string{"1 succeeded failed", "2 succeeded failed", "3 failed succeeded"}, flips); diff != "" {
		t.Errorf("flips (-want +got):\n%s", diff)
	}
	want := &store.Comparison{A: a, B: b, By: "name", Compared: 7, Same: 1, Other: 1, Fixed: 1, Broken: 2, Unended: 1, OnlyA: 1, OnlyB: 1}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreFields(store.Comparison{}, "Flips")); diff != "" {
		t.Errorf("comparison (-want +got):\n%s", diff)
	}
	twice := run([]string{"x", "x"}, job.Failed, job.Succeeded)
	if c, err := f.CompareBatches(ctx, tenant, a, twice, 0, 10); err != nil || c.By != "position" || c.OnlyA != 5 || c.Broken != 1 || c.Same != 1 {
		t.Errorf("by position: %+v, %v", c, err)
	}
	_, err := f.CompareBatches(ctx, "another", a, b, 0, 1)
	f.mustBe(err, job.ErrNotFound)
}

// The list of batches has filters, and returns their states by id.
func testBrowseBatches(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	batch := func(name, label string, jobs ...store.NewJob) job.ID {
		id, err := f.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: tenant, Name: name, Labels: map[string]string{"run": label}}, jobs)
		f.must(err)
		return id
	}
	over, none := batch("eval 1", "7", newJob("1")), batch("eval 2", "8")
	f.finish(leaseOf(f.claim(f.schedule(1)[0].Ref)[0]), job.Succeeded)
	live := batch("train", "7", newJobs(2)...)
	yes, no := true, false
	for what, c := range map[string]struct {
		query store.BatchQuery
		want  []job.ID
	}{
		"all":    {store.BatchQuery{}, []job.ID{live, none, over}},
		"prefix": {store.BatchQuery{NamePrefix: "eval"}, []job.ID{none, over}},
		"label":  {store.BatchQuery{Labels: map[string]string{"run": "7"}}, []job.ID{live, over}},
		"open":   {store.BatchQuery{Open: &yes}, []job.ID{live}},
		"closed": {store.BatchQuery{Open: &no}, []job.ID{none, over}},
		"later":  {store.BatchQuery{Since: time.Now().Add(time.Hour)}, nil},
		"since":  {store.BatchQuery{Since: time.Now().Add(-time.Hour), NamePrefix: "t"}, []job.ID{live}},
	} {
		for _, who := range []string{tenant, ""} {
			for _, limit := range []int{1, 10} {
				var got []job.ID
				for c.query.Before, c.query.Limit = "", limit; ; {
					page, err := f.BrowseBatches(ctx, who, c.query)
					f.must(err)
					for _, b := range page.Batches {
						got = append(got, b.ID)
					}
					if c.query.Before = page.Next; page.Next == "" {
						break
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s, %d a page (-want +got):\n%s", what, limit, diff)
				}
			}
		}
	}
	got, err := f.BatchStates(ctx, tenant, []job.ID{live, job.NewID(), over})
	f.must(err)
	want := []store.BatchState{{ID: live, Total: 2}, {ID: over, Total: 1, Recorded: 1, Succeeded: 1, Done: true}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.BatchState{}, "EndedAt")); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if got, err := f.BatchStates(ctx, "another", []job.ID{live}); err != nil || len(got) > 0 {
		t.Errorf("a stranger sees %+v, %v", got, err)
	}
}
