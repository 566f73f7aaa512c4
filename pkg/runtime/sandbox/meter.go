package sandbox

import (
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// meter reads the usage of one program, for the watch and for callers.
type meter struct {
	place  *Place
	before cgroup.Usage
	budget *runtime.CPUBudget // shared with other programs; nil: none
	toll   *toll.Meter        // the worker's work, which is charged to the attempt
	tolled time.Duration      // the part before the program started

	mu      sync.Mutex
	over    bool
	counted time.Duration // CPU time already charged to the budget
}

// usage returns the program's usage since its start, without the worker's work for it.
func (m *meter) usage() (cgroup.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return cgroup.Usage{}, runtime.ErrOver
	}
	u, err := m.place.Group.Usage()
	return u.Since(m.before), err
}

// progress returns the CPU time and the OOM kills of usage.
func (m *meter) progress() (cgroup.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return cgroup.Usage{}, runtime.ErrOver
	}
	u, err := m.place.Group.Progress()
	return u.Since(m.before), err
}

// charged returns the CPU time charged to the program with usage u.
func (m *meter) charged(u cgroup.Usage) time.Duration { return u.CPU + m.toll.Spent() - m.tolled }

// exhausts reports whether the program with usage u has exhausted its CPU time, or its shared
// budget.
func (m *meter) exhausts(u cgroup.Usage, limit time.Duration) bool {
	cpu := m.charged(u)
	over := cpu >= limit
	if m.budget == nil {
		return over
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	more := cpu - m.counted
	m.counted = cpu
	return m.budget.Spend(more) || over
}

// Spent implements runtime.Meter.
func (m *meter) Spent() (runtime.Spent, error) {
	u, err := m.usage()
	if err != nil {
		return runtime.Spent{}, err
	}
	s := runtime.Spent{CPU: m.charged(u), MemoryPeak: u.MemoryPeak, ProcessesPeak: u.ProcessesPeak, OOMKills: u.OOMKills, ForksRefused: u.ForksRefused}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return s, runtime.ErrOver
	}
	if m.place.Foreign { // the sandbox's kernel's part is not the program's
		s.ProcessesPeak, s.ForksRefused = 0, 0
		s.MemoryPeak = max(s.MemoryPeak-m.place.Idle, 0)
	}
	return s, nil
}

// Full implements runtime.Meter.
func (m *meter) Full() (space, files bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false, false, runtime.ErrOver
	}
	return m.place.Scratch.full()
}

// close ends the meter, because another job will get the group.
func (m *meter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
}
