package live

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

// TestGreedyTenantLeavesOthersTheirShare checks that a tenant that takes all it can leaves as much to others.
func TestGreedyTenantLeavesOthersTheirShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits  Limits
		greedy  share
		victim  share
		victims int // minimum
	}{
		"places":          {Limits{Places: 512}, share{1, 1000, 256 << 20}, share{1, 1000, 256 << 20}, 128},
		"4 GiB each":      {Limits{Places: 512, Memory: 64 * job.GiB}, share{1, 1000, 4 << 30}, share{1, 1000, 256 << 20}, 60},
		"64 cores each":   {Limits{Places: 512, CPU: 512}, share{1, 64_000, 16 << 20}, share{1, 1000, 16 << 20}, 100},
		"tiny and many":   {Limits{Places: 512, Memory: 64 * job.GiB}, share{1, 50, 16 << 20}, share{1, 1000, 256 << 20}, 60},
		"one of all":      {Limits{Places: 512, Memory: 64 * job.GiB}, share{1, 1000, 33 << 30}, share{1, 1000, 256 << 20}, 50},
		"without a bound": {Limits{Places: 512}, share{1, 256_000, 1 << 40}, share{1, 1000, 256 << 20}, 128},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(c.limits)
			took := 0
			for ; took < 1000; took++ {
				if err := l.take("greedy", c.greedy); err != nil {
					if !errors.Is(err, job.ErrTooMany) && !errors.Is(err, job.ErrUnavailable) {
						t.Fatal(err)
					}
					break
				}
			}
			got := 0
			for ; got < 1000; got++ {
				if err := l.take("victim", c.victim); err != nil {
					break
				}
			}
			if took == 0 || got < c.victims {
				t.Errorf("the greedy tenant took %d, which left %d to the other, want %d at least", took, got, c.victims)
			}
			if err := l.take("third", c.victim); err != nil {
				t.Errorf("a third tenant: %v", err)
			}
		})
	}
}

// TestLedgerIsKept checks that commitments stay within the limits, and that none is left after all sessions ended.
func TestLedgerIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(Limits{Places: 20, CPU: 16, Memory: job.GiB})
		type entry struct {
			tenant string
			share
		}
		var open []entry
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "close") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				l.give(open[i].tenant, open[i].share)
				open = append(open[:i], open[i+1:]...)
				continue
			}
			e := entry{fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "tenant")), share{1, rapid.Int64Range(50, 8000).Draw(t, "milli"), rapid.Int64Range(16<<20, 1<<30).Draw(t, "mem")}}
			if l.take(e.tenant, e.share) == nil {
				open = append(open, e)
			}
			if a := l.all; a.places > 20 || a.milli > 16_000 || a.mem > 1<<30 {
				t.Fatalf("promised %+v", a)
			}
		}
		for _, e := range open {
			l.give(e.tenant, e.share)
		}
		if l.all != (share{}) || len(l.tenants) != 0 {
			t.Fatalf("left: %+v, %v", l.all, l.tenants)
		}
	})
}

func TestLargest(t *testing.T) {
	t.Parallel()
	l := newLedger(Limits{})
	if got := l.largest(); got != "" {
		t.Errorf("of nobody: %q", got)
	}
	for tenant, mem := range map[string]int64{"a": 1, "b": 3, "c": 2} {
		if err := l.take(tenant, share{1, 1, mem}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.largest(); got != "b" {
		t.Errorf("largest = %q", got)
	}
}

// TestErrorsOfTheLedger checks the sentinels and texts: field, amounts with units, remedy.
func TestErrorsOfTheLedger(t *testing.T) {
	t.Parallel()
	l := newLedger(Limits{Places: 8, Memory: 10*job.GiB + 300*job.MiB})
	for _, c := range []struct {
		mem      job.Size
		sentinel error
		text     string
	}{
		{64 * job.GiB, job.ErrInvalid, "policy.memory: 64Gi is more than the 10.3Gi that this worker gives to all sessions"},
		{4 * job.GiB, nil, ""},
		{2 * job.GiB, job.ErrTooMany, "too many: policy.memory: this tenant's sessions hold 4Gi of the 10.3Gi that this worker gives to sessions, and 2Gi more would be above its share; close some"},
		{7 * job.GiB, job.ErrUnavailable, "temporarily unavailable: policy.memory: the sessions of this worker use 4Gi of 10.3Gi, and this one needs 7Gi"},
	} {
		err := l.take("a", share{1, 0, int64(c.mem)})
		if !errors.Is(err, c.sentinel) || err != nil && err.Error() != c.text {
			t.Errorf("%v: %v", c.mem, err)
		}
	}
}
