package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/cores"
)

// allocator assigns programs to cores.
var allocator cores.Allocator

// pin binds a program's process and its children to its cores. Interpreters that only wait have
// none.
func pin(pid int, p *Program) error {
	if p.cores.Count() == 0 {
		return nil
	}
	// it has died, which will be reported
	if err := unix.SchedSetaffinity(pid, &p.cores); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("bind process %d to its cores: %w", pid, err)
	}
	return nil
}

// Seat binds a process, whose programs start later, to as many cores as they may use. The caller
// calls Leave when all have ended.
func Seat(pid int, cpu float64) (*cores.Seat, error) {
	seat, err := allocator.Take(CoresOf(cpu), 0, true)
	if err != nil {
		return nil, err
	}
	set := seat.Set()
	if err := unix.SchedSetaffinity(pid, &set); err != nil {
		seat.Leave()
		return nil, fmt.Errorf("bind process %d to its cores: %w", pid, err)
	}
	return seat, nil
}

// bind moves all threads of a program to other cores. Processes forked meanwhile keep the old ones;
// the control group limits their CPU.
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
