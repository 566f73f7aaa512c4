// Package cores assigns programs to cores: to those with the fewest programs, and later to others
// if the load differs from the expectation.
package cores

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Allocator counts the programs on each core. The zero value has none.
type Allocator struct {
	mu      sync.Mutex
	cores   []int       // of this process
	taken   map[int]int // number of programs by core
	working map[int]int // number of working programs by core
	turn    int
}

// Seat is the cores of one program.
type Seat struct {
	all    *Allocator
	cores  []int
	counts bool // for other programs
	moves  bool
	works  bool // all.mu is held
}

// Take selects n of our cores, or all if there are fewer: those with the fewest programs. Programs
// of the same nonzero group take turns and share cores. A waiting program, such as a session
// for most of its life, does not count for others. Leave returns the cores when the program has
// ended.
func (s *Allocator) Take(n int, group uint64, waits bool) (*Seat, error) {
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
	if group == 0 {
		cores = rotated(cores, s.turn)
		slices.SortStableFunc(cores, func(a, b int) int { return s.taken[a] - s.taken[b] })
		s.turn += n
	} else {
		cores = rotated(cores, int(group*uint64(n)%uint64(len(cores))))
	}
	t := &Seat{all: s, cores: slices.Clone(cores[:n]), counts: !waits, moves: n == 1 && group == 0 && !waits}
	if t.counts {
		for _, core := range t.cores {
			s.taken[core]++
		}
	}
	return t, nil
}

// Set returns the cores for the kernel.
func (t *Seat) Set() (set unix.CPUSet) {
	for _, core := range t.cores {
		set.Set(core)
	}
	return set
}

// Leave returns the cores.
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

// Look records whether the program works, and reports whether it has moved: to a core with two
// fewer working programs. So cores stay balanced despite wrong initial expectations.
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

// MaySwitch reports whether Switch may help: the next core has one program at most.
func (t *Seat) MaySwitch() bool {
	if !t.moves {
		return false
	}
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	to := t.next()
	return to != t.cores[0] && t.all.taken[to] < 2
}

// next returns the core after the program's only one. The caller holds all.mu.
func (t *Seat) next() int {
	all := t.all.cores
	return all[(slices.Index(all, t.cores[0])+1)%len(all)]
}

// Switch moves a program that waits for its core to the next one, because other processes keep its
// core busy. Use it after MaySwitch.
func (t *Seat) Switch() {
	s := t.all
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to, works := t.cores[0], t.next(), t.works
	t.work(false)
	s.taken[from]--
	s.taken[to]++
	t.cores[0] = to
	t.work(works)
}

// work counts or uncounts the program as working. The caller holds all.mu.
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
