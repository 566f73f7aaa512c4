package cores

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSeating checks that programs go to the cores with the fewest. Programs that take turns share their
// cores, and others spread over several.
func TestSeating(t *testing.T) {
	all := runtime.NumCPU()
	var s Allocator
	take := func(n int, together uint64) (unix.CPUSet, func()) {
		t.Helper()
		seat, err := s.Take(n, together, false)
		if err != nil {
			t.Fatal(err)
		}
		set := seat.Set()
		if set.Count() != min(n, all) {
			t.Errorf("%d cores, want %d", set.Count(), min(n, all))
		}
		return set, seat.Leave
	}
	leaves := map[unix.CPUSet]func(){}
	for range all {
		set, leave := take(1, 0)
		leaves[set] = leave
	}
	if len(leaves) != all {
		t.Errorf("%d programs by themselves are on %d cores of %d", all, len(leaves), all)
	}
	for range 2 { // whose turn it would be does not matter
		for set, leave := range leaves {
			leave()
			again, back := take(1, 0)
			if again != set {
				t.Error("a program is not bound to the core that is free")
			}
			leaves[set] = back
		}
	}
	for set, leave := range leaves { // sessions have taken the core that is free many times
		leave()
		for range 3 {
			if idle, err := s.Take(1, 0, true); err != nil || idle.Set() != set {
				t.Errorf("a session is bound to %v, %v, want %v", idle.cores, err, set)
			}
		}
		again, back := take(1, 0)
		if again != set {
			t.Error("a program avoids the core that only sessions are bound to")
		}
		leaves[set] = back
		break
	}
	if x, y := first(take(1, 7)), first(take(1, 7)); x != y {
		t.Error("two that take turns do not share their core")
	}
	if x, y := first(take(1, 7)), first(take(1, 8)); all > 1 && x == y {
		t.Error("two pairs share a core")
	}
	take(2*all, 0)
}

// TestSeatsMove checks that busy programs move to less busy cores, and no further. Programs that sleep, take
// turns or wait for their clients stay.
func TestSeatsMove(t *testing.T) {
	s := &Allocator{cores: []int{0, 1}, taken: map[int]int{0: 6}, working: map[int]int{}}
	on := func(moves bool) *Seat { return &Seat{all: s, cores: []int{0}, counts: true, moves: moves} }
	asleep, bound, a, b, c := on(true), on(false), on(true), on(true), on(true)
	for _, quiet := range []*Seat{asleep, bound} {
		if quiet.Look(quiet == bound) {
			t.Error("one that sleeps, or may not, moves")
		}
	}
	if a.Look(true) {
		t.Error("the only one that works moves")
	}
	if !b.Look(true) || b.cores[0] != 1 {
		t.Errorf("the second one that works stays on core %v", b.cores)
	}
	if c.Look(true) || a.Look(true) || b.Look(true) {
		t.Error("one moves for nothing")
	}
	b.Leave()
	if !a.Look(true) || s.working[0] != 1 || s.working[1] != 1 || s.taken[0] != 4 || s.taken[1] != 1 {
		t.Errorf("nobody takes the place of one that ended: %+v", s)
	}
	if a.Leave(); s.working[1] != 0 || a.Look(false) {
		t.Errorf("it still works after its end: %+v", s)
	}
}

func first[A, B any](a A, _ B) A { return a }
