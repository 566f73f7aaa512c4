package containerd

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// What a program is told of its machine: the cores and the memory of its policy.
// Libraries size their thread pools and caches by it. Two files lie over the
// kernel's, and the program's processes are bound to as many cores. The limits
// are the control group's: a program that does not believe this gains nothing.
const (
	cpuOnline = "/sys/devices/system/cpu/online"
	memInfo   = "/proc/meminfo"
)

// What the two files take of a scratch that is not the program's.
const (
	viewFiles = 2
	viewSize  = 2 * 4096
)

// view names the files in a scratch.
func (s *scratch) view() (cpus, memory string) {
	return filepath.Join(s.dir, "cpus"), filepath.Join(s.dir, "meminfo")
}

// show has programs see that many cores and that much memory.
func (s *scratch) show(cores int, memory job.Size) error {
	if s.cores == cores && s.memory == memory {
		return nil
	}
	online := "0\n"
	if cores > 1 {
		online = fmt.Sprintf("0-%d\n", cores-1)
	}
	kib := int64(memory / job.KiB)
	info := fmt.Sprintf("MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB\n"+
		"Buffers:               0 kB\nCached:                0 kB\nSwapCached:            0 kB\n"+
		"SwapTotal:             0 kB\nSwapFree:              0 kB\n", kib, kib, kib)
	cpus, mem := s.view()
	if err := errors.Join(os.WriteFile(cpus, []byte(online), 0o444), os.WriteFile(mem, []byte(info), 0o444)); err != nil {
		return fmt.Errorf("show the limits: %w", err)
	}
	s.cores, s.memory = cores, memory
	return nil
}

// showDefaults is show for a slot that nobody has taken yet.
func (s *scratch) showDefaults() error {
	def := policy.Default()
	return s.show(coresOf(def.CPU), def.Memory)
}

// coresOf returns how many cores a program of that quota should think it has.
func coresOf(cpu float64) int { return min(max(int(math.Ceil(cpu)), 1), runtime.NumCPU()) }

// seats spreads programs over the cores.
var seats seating

// seating counts the programs that are bound to each core.
type seating struct {
	mu    sync.Mutex
	taken map[int]int // by core
	turn  int
}

// take chooses n of our cores, all if there are fewer: those that the fewest programs
// are bound to. Programs that take turns, which have a number in common that is not 0,
// share theirs. One that waits, as a session does for most of a long life, does not count
// for others: where idle sessions happen to be must not crowd the rest. leave gives the
// cores back, when the program has ended.
func (s *seating) take(n int, together uint64, waits bool) (set unix.CPUSet, leave func(), err error) {
	var ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		return set, nil, fmt.Errorf("read our cores: %w", err)
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
		s.taken = map[int]int{}
	}
	if together == 0 {
		cores = rotated(cores, s.turn)
		slices.SortStableFunc(cores, func(a, b int) int { return s.taken[a] - s.taken[b] })
		s.turn += n
	} else {
		cores = rotated(cores, int(together*uint64(n)%uint64(len(cores))))
	}
	cores = cores[:n]
	for _, core := range cores {
		set.Set(core)
	}
	if waits {
		return set, func() {}, nil
	}
	for _, core := range cores {
		s.taken[core]++
	}
	return set, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, core := range cores {
			s.taken[core]--
		}
	}, nil
}

func rotated(all []int, by int) []int {
	by %= len(all)
	return slices.Concat(all[by:], all[:by])
}

// pin binds the process of a program, and what it will start, to its cores. What
// only waits for a program has none.
func pin(pid int, p *program) error {
	if p.cores.Count() == 0 {
		return nil
	}
	if err := unix.SchedSetaffinity(pid, &p.cores); err != nil && !errors.Is(err, unix.ESRCH) { // it has died: we shall hear of it
		return fmt.Errorf("bind process %d to its cores: %w", pid, err)
	}
	return nil
}
