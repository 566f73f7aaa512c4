package ui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// solution returns a job with labels.
func solution(problem string) job.Spec {
	s := python("1")
	s.Labels = map[string]string{"problem": problem}
	return s
}

// graded returns a result with a score.
func graded(score float64) job.Result {
	r := job.Result{Outcome: job.Failed, Tests: &job.TestsResult{Passed: 1, Total: 2, Score: &score}, Timings: job.Timings{QueuedMS: 1000, SlotMS: 500, RunMS: 40}}
	if score == 1 {
		r.Outcome = job.Succeeded
	}
	return r
}

// The page of a graded batch has the mean score, the distribution, pass@k by label, and percentiles. Results without a
// verdict do not count.
func TestScoresOfABatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	batch := f.submit("one", "graded", nil, solution("a"), solution("a"), solution("a"), solution("a"), solution("b"), solution("b"), solution("b"))
	next := map[string]int{}
	scores := map[string][]float64{"a": {1, 1, 0.5, 0}, "b": {0.5, 0}}
	f.finish("w1", f.claim("w1"), func(c store.Claimed) job.Result {
		var spec job.Spec
		if err := json.Unmarshal(c.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		problem := spec.Labels["problem"]
		n := next[problem]
		if next[problem]++; n == len(scores[problem]) {
			return job.Result{Outcome: job.Lost}
		}
		return graded(scores[problem][n])
	})
	page := strings.Join(strings.Fields(f.as(oneKey).page("/ui/batches/"+string(batch))), " ")
	for _, want := range []string{
		`Mean score</dt><dd>0.500 <span class="quiet">of 6 results`, "Run time, p50 and p95</dt><dd>40.0 ms, 40.0 ms", "Wait, p50 and p95</dt><dd>1.50 s, 1.50 s",
		`aria-label="Jobs by score, 0 to 1: 2 up to 0.1, 0 up to 0.2, 0 up to 0.3, 0 up to 0.4, 0 up to 0.5, 2 up to 0.6, 0 up to 0.7, 0 up to 0.8, 0 up to 0.9, 2 up to 1.0"`,
		`<th scope="col" class="num">pass@4</th></tr>`, `<bdi>problem</bdi></th><td class="num">2</td><td class="num">2 to 4</td><td class="num">0.250</td><td class="num">0.417</td><td class="num">1.000</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// A batch without tests has no scores.
func TestNoScoresWithoutTests(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	batch := f.submit("one", "plain", nil, python("1"), python("2"))
	f.finish("w1", f.claim("w1"), fillResult)
	page := f.as(oneKey).page("/ui/batches/" + string(batch))
	for _, not := range []string{"Mean score", "Scores", "pass@"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// An open page does not prolong the lease of a batch: the page reads no results before the batch is done.
func TestScoresOfABatchWithALease(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var jobs []store.NewJob
	for i := range 2 {
		raw, err := json.Marshal(python(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "one", Pool: placement.Any, Spec: raw})
	}
	id, err := f.store.SubmitBatch(t.Context(), store.NewBatch{ID: job.NewID(), Tenant: "one", Lease: time.Minute, Total: 2}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	cs := f.claim("w1")
	f.finish("w1", cs[:1], func(store.Claimed) job.Result { return graded(1) })
	b := f.as(oneKey)
	lease := func() string {
		got, err := f.store.Batch(t.Context(), "one", id)
		if err != nil {
			t.Fatal(err)
		}
		return got.LeaseUntil.String()
	}
	before := lease()
	if page := b.page("/ui/batches/" + string(id)); strings.Contains(page, "Mean score") || !strings.Contains(page, "Client lease ends") || lease() != before {
		t.Error("the page has scores of an unfinished batch with a lease, or prolonged the lease")
	}
	f.finish("w1", cs[1:], func(store.Claimed) job.Result { return graded(0) })
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(b.page("/ui/batches/"+string(id)), "Mean score</dt><dd>0.500"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) { // the summary is cached
			t.Fatal(b.page("/ui/batches/" + string(id)))
		}
	}
}
