package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/internal/worker/health"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// A job that breaks its sandbox again when it is alone has an outcome of its own. A job whose
// sandbox broke with a neighbour's has its usual outcome. Neither is handed back.
func TestWhoBreaksASandbox(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   job.Outcome
	}{
		"its own doing": {"broken=always", job.PolicyViolation}, "a neighbour's doing": {"broken=once exit=3", job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet())
				for range 2 * health.BreakerAfter {
					id := b.submit(t, script(c.script))
					if res := b.recorded(id); res.Outcome != c.want {
						t.Errorf("%s (%s), want %s", res.Outcome, res.Message, c.want)
					} else if c.want == job.PolicyViolation && !strings.Contains(res.Message, "broke its sandbox") {
						t.Errorf("it says %q", res.Message)
					}
				}
				if !b.w.breaker.Closed() {
					t.Error("the worker rests")
				}
			})
		})
	}
}

// A sandbox that refuses the job ends it at the first attempt, and the worker goes on.
func TestRefusedBySandbox(t *testing.T) {
	for name, refusal := range map[string]error{
		"invalid field": fmt.Errorf("make a box: %w", job.Invalid("policy.write[0]", "is a file of the image")),
		"invalid":       fmt.Errorf("lay out: %w", job.ErrInvalid),
		"refused":       fmt.Errorf("lay out: %w", job.ErrRefused),
		"build":         &runtime.BuildError{Message: "no such package"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, newFleet(), func(_ *Config, p *Parts) {
					p.Runtime = fake.New(func(context.Context, runtime.Key, runtime.Attempt) (*runtime.Report, error) { return nil, refusal })
				})
				for range 2 * health.BreakerAfter {
					id := b.submit(t, script("exit=0"))
					res := b.recorded(id)
					if res.Outcome != job.SetupError || len(b.row(id).releases) != 0 {
						t.Errorf("%s (%s), released %d times", res.Outcome, res.Message, len(b.row(id).releases))
					}
					if name == "invalid field" && res.Message != "policy.write[0]: is a file of the image" {
						t.Errorf("message %q", res.Message)
					}
				}
				if !b.w.breaker.Closed() {
					t.Error("the worker rests")
				}
			})
		})
	}
}

// Jobs that fail by themselves cannot make a worker rest whose canary job succeeds.
func TestFailingJobsDoNotStopTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), proving(func(policy.Isolation) error { return nil }))
		for range 20 {
			id := b.submit(t, script("error=odd"))
			b.until("the job is handed back", func() bool { return len(b.row(id).releases) > 0 })
		}
		synctest.Wait()
		began := time.Now()
		if res := b.recorded(b.submit(t, script("exit=0"))); res.Outcome != job.Succeeded {
			t.Errorf("result = %+v", res)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("a healthy job waited for %v", waited)
		}
	})
}
