package chaos

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// TestPools: a job goes only where it can run. One that nobody can run stays
// queued, says why, and goes once a worker comes that can; or expires.
func TestPools(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{workers: -1})
	f.addWorker("plain", "ASSAY_MEMORY=2Gi")
	f.addWorker("gpu", "ASSAY_LABELS=gpu=a100,zone=b", "ASSAY_MEMORY=8Gi")
	f.addWorker("reserved", "ASSAY_IMAGES=cuda")
	f.ready()
	submit := func(change func(*job.Spec)) job.ID {
		s := scripted("")
		change(&s)
		a, err := f.api.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	needs := func(policy string, requires map[string]string) func(*job.Spec) {
		return func(s *job.Spec) { s.Policy, s.Requires = json.RawMessage(policy), requires }
	}
	for want, change := range map[string]func(*job.Spec){
		"gpu":          needs(`{"enforce":"report"}`, map[string]string{"gpu": "a100"}),
		"gpu ":         needs(`{"enforce":"report","memory":"3Gi"}`, nil),
		"gpu  ":        needs(`{"enforce":"report","memory":"7Gi"}`, map[string]string{"zone": "b"}),
		"plain, gpu":   needs(`{"enforce":"report","memory":"1900Mi"}`, nil),
		"gpu, plain":   func(*job.Spec) {},
		"any of three": func(s *job.Spec) { s.Image = "cuda" },
	} {
		for range 5 {
			id := submit(change)
			f.until(id, job.Finished)
			if j, err := f.api.Job(t.Context(), id, 0); err != nil || !strings.Contains(want, j.Worker) && want != "any of three" {
				t.Errorf("a job for %q ran on %s (pool %s), %v", want, j.Worker, j.Pool, err)
			}
		}
	}
	waits := submit(needs(`{"enforce":"report"}`, map[string]string{"gpu": "h100"}))
	expires := submit(func(s *job.Spec) {
		s.Requires, s.ExpiresIn = map[string]string{"tpu": "5"}, job.Duration(2*time.Second)
	})
	j, err := f.api.Job(t.Context(), waits, 0)
	if err != nil || j.State != job.Queued || !strings.Contains(j.Message, "label gpu=h100") {
		t.Errorf("%s, %q, %v", j.State, j.Message, err)
	}
	f.until(expires, job.Finished)
	if r := f.row(expires); r.Outcome != string(job.Expired) {
		t.Errorf("%+v", r)
	}
	f.addWorker("late", "ASSAY_LABELS=gpu=h100")
	f.until(waits, job.Finished)
	if j, err := f.api.Job(t.Context(), waits, 0); err != nil || j.Worker != "late" || j.Message != "" {
		t.Errorf("%+v, %v", j, err)
	}
}
