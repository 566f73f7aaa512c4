package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/cores"
)

// allocator spreads programs over the cores.
var allocator cores.Allocator

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
