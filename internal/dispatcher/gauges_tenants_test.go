package dispatcher

import (
	"fmt"
	"testing"

	"github.com/assay-run/assay/pkg/fleet"
)

// TestLargestTenants checks that many tenants have few series, which sum up to all jobs.
func TestLargestTenants(t *testing.T) {
	t.Parallel()
	var groups []fleet.QueueGroup
	for i := range 200 {
		groups = append(groups, fleet.QueueGroup{Tenant: fmt.Sprintf("t%03d", i), Queued: int64(1000 - i), Running: 1, OldestSeconds: float64(i)},
			fleet.QueueGroup{Tenant: "t000", Queued: 1})
	}
	sum := func(m map[string]fleet.TenantQueue) (n int64) {
		for _, g := range m {
			n += g.Queued
		}
		return n
	}
	got := largestTenants(fleet.TenantQueues(groups), nil)
	if want := int64(200*1000 - 199*200/2 + 200); sum(got) != want || len(got) != tenantsMost+1 {
		t.Errorf("%d series sum up to %d, want %d", len(got), sum(got), want)
	}
	if g := got["t000"]; g.Queued != 1200 || g.Running != 1 {
		t.Errorf("the largest has %+v", g)
	}
	if g := got[otherTenants]; g.OldestSeconds != 199 {
		t.Errorf("the others wait for %+v", g)
	}
	later := largestTenants(nil, got)
	if g, there := later["t000"]; !there || g.Queued != 0 || sum(later) != 0 {
		t.Errorf("when all is done the largest has %+v, %v", g, there)
	}
}
