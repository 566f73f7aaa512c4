package cores

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSwitch checks that a waiting program goes to the next core and counts there, and that sessions and
// programs of several cores stay.
func TestSwitch(t *testing.T) {
	s := Allocator{}
	seat, err := s.Take(1, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.NumCPU() == 1 {
		if seat.MaySwitch() {
			t.Error("a program may move from the only core")
		}
		return
	}
	from := seat.cores[0]
	if !seat.MaySwitch() {
		t.Error("a program may not move to an empty core")
	}
	if seat.Switch(); seat.cores[0] == from {
		t.Errorf("a program on core %d is on %v after a switch", from, seat.cores)
	}
	if s.taken[from] != 0 || s.taken[seat.cores[0]] != 1 {
		t.Errorf("after a switch from %d to %v, programs by core are %v", from, seat.cores, s.taken)
	}
	seat.Leave()
	if s.taken[seat.cores[0]] != 0 {
		t.Errorf("after the end, programs by core are %v", s.taken)
	}
	for name, other := range map[string]func() (*Seat, error){
		"a session":              func() (*Seat, error) { return s.Take(1, 0, true) },
		"programs in turns":      func() (*Seat, error) { return s.Take(1, 7, false) },
		"a program of two cores": func() (*Seat, error) { return s.Take(2, 0, false) },
	} {
		if seat, err := other(); err != nil || seat.MaySwitch() {
			t.Errorf("%s may switch its core, %v", name, err)
		}
	}
	s = Allocator{}
	for range 4 * runtime.NumCPU() {
		if seat, err = s.Take(1, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if seat.MaySwitch() {
		t.Errorf("a program may switch although all cores are taken: %v", s.taken)
	}
}

// TestSeating checks that programs go to the cores with the fewest. Programs that take turns share their
// cores, and others spread over several.
func TestSeating(t *testing.T) {
	all := runtime.NumCPU()
	var s Allocator
	take := func(n int, group uint64) (unix.CPUSet, func()) {
		t.Helper()
		seat, err := s.Take(n, group, false)
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
