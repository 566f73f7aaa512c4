package lease

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// hastened is a group that records when its CPU limit is lifted and set.
type hastened struct {
	cgroup.Reusable
	lifted chan time.Time
	set    int
}

func (h *hastened) Path() string { return "/hastened" }

func (h *hastened) Hasten() error {
	h.lifted <- time.Now()
	return nil
}

func (h *hastened) Limit(cgroup.Limits) error {
	h.set++
	return nil
}

// TestHasteComesLate checks that a killed group that does not die soon gets all CPU, and that the next
// program in the group gets its limits.
func TestHasteComesLate(t *testing.T) {
	g := &hastened{lifted: make(chan time.Time, 10)}
	l := &Lease{Group: g}
	want := cgroup.Limits{Memory: 1 << 20}
	limit := func() {
		t.Helper()
		if err := l.Limit(want); err != nil {
			t.Fatal(err)
		}
	}
	limit()
	killed := time.Now()
	for range 2 {
		if err := l.Hasten(); err != nil {
			t.Fatal(err)
		}
	}
	if at := <-g.lifted; at.Sub(killed) < hasteDelay {
		t.Errorf("lifted %v after the kill, before %v", at.Sub(killed), hasteDelay)
	}
	limit()
	limit()
	if g.set != 2 {
		t.Errorf("the limits were set %d times; want 2: once, and once again after they were lifted", g.set)
	}
}

// TestHasteEndsWithTheLoan checks that no limit is lifted for a group that is dead in time, nor by a kill
// that comes after the group has a new user.
func TestHasteEndsWithTheLoan(t *testing.T) {
	groups := &Groups{}
	g := &hastened{lifted: make(chan time.Time, 10)}
	l := &Lease{Group: g, from: groups}
	if err := l.Limit(cgroup.Limits{Memory: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := l.Hasten(); err != nil {
		t.Fatal(err)
	}
	l.Put(t.Context())
	if err := l.Hasten(); err != nil { // too late
		t.Fatal(err)
	}
	next := groups.take(0)
	if next == nil {
		t.Fatal("the group was not taken back")
	}
	if err := next.Limit(cgroup.Limits{Memory: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.lifted:
		t.Error("the limit of the next job was lifted")
	case <-time.After(4 * hasteDelay):
	}
	if g.set != 1 {
		t.Errorf("the limits were set %d times; want once: they were never lifted", g.set)
	}
	if err := next.Hasten(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.lifted:
	case <-time.After(time.Minute):
		t.Fatal("a group that is lent again is not hastened")
	}
	next.Put(t.Context())
	if last := groups.take(0); last.Limits != (cgroup.Limits{}) {
		t.Errorf("a group whose limit was lifted is lent as if it had %+v", last.Limits)
	}
}
