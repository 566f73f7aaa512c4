// Package toll measures the CPU time that a worker spends on one job, so that the job pays for it and cannot cause more than its
// ration of it.
//
// A job decides how much work a look at it is: it may have thousands of threads, or of sockets. The cost of each look delays the
// next one.
package toll

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// share is the part of a core that looks at one job may use: one in so many.
	share = 50
	// credit is the CPU time that looks may use before the ration delays them.
	credit = 20 * time.Millisecond
)

// Meter measures the looks at one job. It is safe for concurrent use. Its zero value is ready, and a nil Meter measures nothing.
type Meter struct {
	mu    sync.Mutex
	spent time.Duration
	owed  time.Time // until when the ration is used up
}

// Begin starts a measurement of the calling goroutine, which keeps its thread until it calls end. Measurements do not nest.
func (m *Meter) Begin() (end func()) {
	if m == nil {
		return func() {}
	}
	runtime.LockOSThread()
	began := threadTime()
	return func() {
		cost := threadTime() - began
		runtime.UnlockOSThread()
		m.add(time.Now(), cost)
	}
}

func (m *Meter) add(now time.Time, cost time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent += cost
	if m.owed.Before(now) {
		m.owed = now
	}
	m.owed = m.owed.Add(share * cost)
}

// Affords reports whether the ration allows another look.
func (m *Meter) Affords(now time.Time) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owed.Sub(now) < share*credit
}

// Spent returns the CPU time of all measurements.
func (m *Meter) Spent() time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // no Linux kernel lacks this clock
	}
	return time.Duration(t.Nano())
}
