package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
				for range 2 * breakerAfter {
					id := b.submit(t, script(c.script))
					if res := b.recorded(id); res.Outcome != c.want {
						t.Errorf("%s (%s), want %s", res.Outcome, res.Message, c.want)
					} else if c.want == job.PolicyViolation && !strings.Contains(res.Message, "broke its sandbox") {
						t.Errorf("it says %q", res.Message)
					}
				}
				if !b.w.breaker.closed() {
					t.Error("the worker rests")
				}
			})
		})
	}
}

func TestOneTenantsFailuresAreNoReasonToRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{}
		for range 10 { // one job again and again
			b.fail("a", "1")
		}
		if !b.closed() {
			t.Error("rests because of one job")
		}
		b.ok("b")
		for _, id := range []job.ID{"1", "2", "3", "4"} {
			b.fail("a", id)
		}
		if !b.closed() {
			t.Error("rests because of one tenant")
		}
		if b.fail("c", "5") == 0 {
			t.Error("does not rest though two tenants' jobs fail")
		}
		b.ok("a")
		time.Sleep(breakerPast + time.Second)
		for _, id := range []job.ID{"1", "2", "3"} {
			b.fail("a", id)
		}
		if b.closed() {
			t.Error("does not rest though nothing has worked for long")
		}
	})
}
