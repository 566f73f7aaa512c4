package worker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// After a quarantine one job is taken at a time, until one has come to a result.
func TestQuarantineAndProbation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := &breaker{}, time.Now()
		if b.wait(t.Context()); time.Since(began) > 0 || b.most() != math.MaxInt {
			t.Error("held back for nothing")
		}
		b.quarantine(t.Context(), time.Minute)
		b.ok("a") // of an attempt that had begun before
		if b.wait(t.Context()); time.Since(began) < time.Minute {
			t.Errorf("taking jobs again after %v", time.Since(began))
		}
		time.Sleep(time.Millisecond)
		if b.most() != 1 {
			t.Errorf("on probation it asks for %d", b.most())
		}
		if b.ok("a"); b.most() != math.MaxInt {
			t.Error("probation never ends")
		}
	})
}
