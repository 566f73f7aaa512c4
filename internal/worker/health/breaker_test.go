package health

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// After a quarantine one job is taken at a time, until one has succeeded.
func TestQuarantineAndProbation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := &Breaker{}, time.Now()
		if b.Wait(t.Context()); time.Since(began) > 0 || b.Most() != math.MaxInt {
			t.Error("held back for nothing")
		}
		b.Quarantine(t.Context(), time.Minute)
		b.OK("a") // of an attempt that began earlier
		if b.Wait(t.Context()); time.Since(began) < time.Minute {
			t.Errorf("taking jobs again after %v", time.Since(began))
		}
		time.Sleep(time.Millisecond)
		if b.Most() != 1 {
			t.Errorf("on probation it asks for %d", b.Most())
		}
		if b.OK("a"); b.Most() != math.MaxInt {
			t.Error("probation never ends")
		}
	})
}

func TestOneTenantsFailuresAreNoReasonToRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &Breaker{}
		for range 10 { // the same job repeatedly
			b.Fail("a", "1", "")
		}
		if !b.Closed() {
			t.Error("rests because of one job")
		}
		b.OK("b")
		for _, id := range []job.ID{"1", "2", "3", "4"} {
			b.Fail("a", id, "")
		}
		if !b.Closed() {
			t.Error("rests because of one tenant")
		}
		b.Fail("c", "5", "")
		if !b.Closed() {
			t.Error("rests because of two tenants, while jobs of a third succeed")
		}
		if b.Fail("b", "6", "") == 0 {
			t.Error("does not rest though jobs of every tenant fail")
		}
		b.OK("a")
		time.Sleep(breakerPast + time.Second)
		for _, id := range []job.ID{"1", "2", "3"} {
			b.Fail("a", id, "")
		}
		if b.Closed() {
			t.Error("does not rest though nothing has worked for long")
		}
	})
}

// A worker does not complete a rest that a later order ends.
func TestOrderedRestEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := &Breaker{}, time.Now()
		b.Quarantine(t.Context(), time.Hour)
		time.AfterFunc(time.Minute, func() { b.Rest(0) })
		if b.Wait(t.Context()); time.Since(began) > time.Minute+waitStep {
			t.Errorf("it rested for %v", time.Since(began))
		}
		if b.Most() != 1 {
			t.Error("a quarantine that is ended early has no probation")
		}
	})
}

// Each failure beyond the first few doubles the pause, up to the longest.
func TestPausesOfTheBreaker(t *testing.T) {
	t.Parallel()
	b := &Breaker{}
	for i, want := range []time.Duration{
		0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
		1600 * time.Millisecond, 3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, breakerMax, breakerMax, breakerMax,
	} {
		if got := b.Fail("a", job.ID(rune('a'+i)), ""); got != want {
			t.Errorf("failure %d: a pause of %v, want %v", i+1, got, want)
		}
	}
	if b.Closed() {
		t.Error("jobs are taken all the same")
	}
	if b.OK("a"); !b.Closed() || b.Fail("a", "z", "") != 0 {
		t.Error("what failed before a success counts")
	}
}

// No set of tenants can open the breaker of a worker whose canary job succeeds.
func TestCanaryClosesTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var proved []string
		works := true
		b := &Breaker{Prove: func(way string) error {
			proved = append(proved, way)
			if !works {
				return errors.New("no sandbox")
			}
			return nil
		}}
		fail := func(way string) {
			for i := range 20 {
				b.Fail(fmt.Sprint("tenant", i), job.ID(fmt.Sprint(way, i)), way)
				synctest.Wait()
			}
		}
		if fail("cell"); !b.Closed() {
			t.Error("open, though the canary job succeeds")
		}
		if len(proved) == 0 || proved[0] != "cell" {
			t.Errorf("proved %q", proved)
		}
		works = false
		if fail("task"); b.Closed() {
			t.Error("closed, though the canary job fails")
		}
		works = true
		b.OK("tenant0")
		if fail(""); b.Closed() {
			t.Error("closed by a canary job that does not meet the failure")
		}
	})
}
