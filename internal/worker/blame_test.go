package worker

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/assay-run/assay/internal/worker/health"
	"github.com/assay-run/assay/pkg/job"
)

// A job that breaks its sandbox again where it is alone has an outcome of its own;
// one that broke with a neighbour's has its usual one. Nothing is handed back.
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
