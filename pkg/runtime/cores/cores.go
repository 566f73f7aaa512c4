// Package cores says which cores of the host each program runs on: those with the fewest, and others where these turn out to
// work more than it was known when programs began.
package cores

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Allocator counts the programs that are bound to each core. The zero value has none.
type Allocator struct {
	mu      sync.Mutex
	cores   []int       // ours
	taken   map[int]int // programs, by core
	working map[int]int // those of them that work now
	turn    int
}

// Seat is the cores that one program is bound to.
type Seat struct {
	all    *Allocator
	cores  []int
	counts bool // for others
	moves  bool
	works  bool // all.mu is held
}

// Take chooses n of our cores, all if there are fewer: those that the fewest programs
// are bound to. Programs that take turns, which have a number in common that is not 0,
// share theirs. One that waits, as a session does for most of a long life, does not count
// for others: where idle sessions happen to be must not crowd the rest. The cores are
// given back, by Leave, when the program has ended.
func (s *Allocator) Take(n int, together uint64, waits bool) (*Seat, error) {
	var ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		return nil, fmt.Errorf("read our cores: %w", err)
	}
	var cores []int
	for core := 0; len(cores) < ours.Count(); core++ {
		if ours.IsSet(core) {
			cores = append(cores, core)
		}
	}
	n = min(n, len(cores))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken, s.working = map[int]int{}, map[int]int{}
	}
	s.cores = cores
	if together == 0 {
		cores = rotated(cores, s.turn)
		slices.SortStableFunc(cores, func(a, b int) int { return s.taken[a] - s.taken[b] })
		s.turn += n
	} else {
		cores = rotated(cores, int(together*uint64(n)%uint64(len(cores))))
	}
	t := &Seat{all: s, cores: slices.Clone(cores[:n]), counts: !waits, moves: n == 1 && together == 0 && !waits}
	if t.counts {
		for _, core := range t.cores {
			s.taken[core]++
		}
	}
	return t, nil
}

// Set is the cores for the kernel.
func (t *Seat) Set() (set unix.CPUSet) {
	for _, core := range t.cores {
		set.Set(core)
	}
	return set
}

// Leave gives the cores back.
func (t *Seat) Leave() {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if t.counts {
		for _, core := range t.cores {
			t.all.taken[core]--
		}
	}
	t.work(false)
}

// Look notes whether the program works, and reports whether it has another core from now on: one
// on which two fewer programs work. So no core is idle, or less busy, for what was not known
// when programs began.
func (t *Seat) Look(works bool) (moved bool) {
	if !t.moves {
		return false
	}
	s := t.all
	s.mu.Lock()
	defer s.mu.Unlock()
	t.work(works)
	if !works {
		return false
	}
	from := t.cores[0]
	to := slices.MinFunc(s.cores, func(a, b int) int { return s.working[a] - s.working[b] })
	if s.working[from]-s.working[to] < 2 {
		return false
	}
	t.work(false)
	s.taken[from]--
	s.taken[to]++
	t.cores[0] = to
	t.work(true)
	return true
}

// work counts the program among those that work, or not any more. all.mu is held.
func (t *Seat) work(works bool) {
	if works == t.works {
		return
	}
	t.works = works
	more := map[bool]int{true: 1, false: -1}[works]
	for _, core := range t.cores {
		t.all.working[core] += more
	}
}

func rotated(all []int, by int) []int {
	by %= len(all)
	return slices.Concat(all[by:], all[:by])
}
