package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// allocator spreads programs over the cores.
var allocator cpuAllocator

// cpuAllocator counts the programs that are bound to each core.
type cpuAllocator struct {
	mu      sync.Mutex
	cores   []int       // ours
	taken   map[int]int // programs, by core
	working map[int]int // those of them that work now
	turn    int
}

// seat is the cores that one program is bound to.
type seat struct {
	all    *cpuAllocator
	cores  []int
	counts bool // for others
	moves  bool
	works  bool // all.mu is held
}

// take chooses n of our cores, all if there are fewer: those that the fewest programs
// are bound to. Programs that take turns, which have a number in common that is not 0,
// share theirs. One that waits, as a session does for most of a long life, does not count
// for others: where idle sessions happen to be must not crowd the rest. The cores are
// given back, by leave, when the program has ended.
func (s *cpuAllocator) take(n int, together uint64, waits bool) (*seat, error) {
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
	t := &seat{all: s, cores: slices.Clone(cores[:n]), counts: !waits, moves: n == 1 && together == 0 && !waits}
	if t.counts {
		for _, core := range t.cores {
			s.taken[core]++
		}
	}
	return t, nil
}

// set is the cores for the kernel.
func (t *seat) set() (set unix.CPUSet) {
	for _, core := range t.cores {
		set.Set(core)
	}
	return set
}

// leave gives the cores back.
func (t *seat) leave() {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if t.counts {
		for _, core := range t.cores {
			t.all.taken[core]--
		}
	}
	t.work(false)
}

// look notes whether the program works, and reports whether it has another core from now on: one
// on which two fewer programs work. So no core is idle, or less busy, for what was not known
// when programs began.
func (t *seat) look(works bool) (moved bool) {
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
func (t *seat) work(works bool) {
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

// pin binds the process of a program, and what it will start, to its cores. What
// only waits for a program has none.
func pin(pid int, p *Program) error {
	if p.cores.Count() == 0 {
		return nil
	}
	if err := unix.SchedSetaffinity(pid, &p.cores); err != nil && !errors.Is(err, unix.ESRCH) { // it has died: we shall hear of it
		return fmt.Errorf("bind process %d to its cores: %w", pid, err)
	}
	return nil
}

// bind binds all that runs of a program to other cores. What is forked meanwhile keeps the old
// ones; the limit of its CPU is the control group's.
func (s *Place) bind(set unix.CPUSet) error {
	threads, err := s.Group.Threads()
	if err != nil {
		return err
	}
	for _, id := range threads {
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("bind thread %d to its cores: %w", id, err)
		}
	}
	return nil
}
