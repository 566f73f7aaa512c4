package cell

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/cgroup/lease"
)

// TestGroupsNobodyWantsAreGivenUp checks that the groups of a peak of jobs are removed long after it, and
// that needed groups stay.
func TestGroupsNobodyWantsAreGivenUp(t *testing.T) {
	groups := newRuntime(t, func(c *Settings) { c.WarmIdle = 400 * time.Millisecond }).cells.groups
	var peak []*lease.Lease
	for range 5 {
		l, err := groups.Get(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		peak = append(peak, l)
	}
	for _, l := range peak {
		l.Put(t.Context())
	}
	if _, ok := peak[0].Group.(cgroup.Reusable); !ok { // cgroup v2: none is used again, so none is kept
		if n := groups.Outstanding(); n != 0 {
			t.Errorf("%d are on loan", n)
		}
		for _, l := range peak {
			if _, err := l.Pids(); err == nil {
				t.Errorf("%s is there still", l.Path())
			}
		}
		return
	}
	kept := func() int {
		return len(groups.Unused(0))
	}
	if n := kept(); n != 5 {
		t.Fatalf("%d are kept", n)
	}
	last := peak[4]
	eventually(t, "the end of all but the one in use", func() bool {
		l, err := groups.Get(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if l.Path() != last.Path() {
			t.Fatalf("%s was lent, and %s was given back after it", l.Path(), last.Path())
		}
		l.Put(t.Context())
		return kept() == 1 && groups.Outstanding() == 0 // which they are until they are removed
	})
	for _, l := range peak[:4] {
		if pids, err := l.Pids(); err == nil {
			t.Errorf("%s is there still, with %d processes", l.Path(), len(pids))
		}
	}
}
