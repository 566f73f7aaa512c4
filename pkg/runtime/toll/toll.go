// Package toll measures the CPU time that a worker spends on one job. The job is charged for it,
// and cannot cause more than its ration.
//
// A job determines the worker's work: it may have thousands of threads or sockets, and send
// millions of messages. All of this work is charged. The cost of each look at the job, and of each
// request to its egress proxy, delays the next one.
package toll

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// share is the divisor of a core for looks at one job. Its requests may use the same.
	share = 50
	// credit is the CPU time that a ration allows before it delays anything.
	credit = 20 * time.Millisecond
)

// ration limits one kind of work. Looks and requests have separate rations. So programs cannot
// delay the look that finds them above a limit, and looks at thousands of threads do not block a
// program's network.
type ration struct{ owed time.Time } // until when it is used up

func (r *ration) use(now time.Time, cost time.Duration) {
	if r.owed.Before(now) {
		r.owed = now
	}
	r.owed = r.owed.Add(share * cost)
}

// left returns how long work has to wait; zero or less: not at all.
func (r *ration) left(now time.Time) time.Duration { return max(r.owed.Sub(now), 0) - share*credit }

// Meter measures the work for one job. It is safe for concurrent use. Its zero value is ready, and
// a nil Meter measures nothing.
type Meter struct {
	mu              sync.Mutex
	spent           time.Duration
	widened         time.Duration // what was spent when the process last widened for it
	looks, requests ration
}

// Begin starts the measurement of a look. The calling goroutine keeps its thread until it calls
// end. Measurements do not nest.
func (m *Meter) Begin() (end func()) {
	if m == nil {
		return func() {}
	}
	began := begin()
	return func() { m.add(&m.looks, time.Now(), finish(began)) }
}

// Measure charges the CPU time of f without a ration. f yields to the work for other jobs once it has
// run long, or the job has caused much work.
func (m *Meter) Measure(f func()) {
	if m == nil {
		f()
		return
	}
	began := begin()
	p := startPiece(m.Spent() >= much)
	defer func() {
		p.end()
		m.Charge(finish(began))
	}()
	f()
}

// Charge adds the cost of work without a ration.
func (m *Meter) Charge(cost time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.charge(cost)
}

// charge adds cost; m.mu is held.
func (m *Meter) charge(cost time.Duration) {
	if m.spent += cost; m.spent-m.widened >= much {
		m.widened = m.spent
		widen()
	}
}

// Request adds the cost of a program's request, which delays its next requests.
func (m *Meter) Request(cost time.Duration) {
	if m != nil {
		m.add(&m.requests, time.Now(), cost)
	}
}

func (m *Meter) add(to *ration, now time.Time, cost time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.charge(cost)
	to.use(now, cost)
}

// Affords reports whether the ration allows another look.
func (m *Meter) Affords(now time.Time) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks.left(now) < 0
}

// Delay returns how long a request of the program has to wait for its ration; zero or less: not at all.
func (m *Meter) Delay(now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests.left(now)
}

// Spent returns the CPU time of all measurements and charges.
func (m *Meter) Spent() time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// begin locks the goroutine to its thread and returns the thread's CPU time.
func begin() time.Duration {
	runtime.LockOSThread()
	return threadTime()
}

// finish returns the CPU time since begin.
func finish(began time.Duration) time.Duration {
	cost := threadTime() - began
	runtime.UnlockOSThread()
	return cost
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // every Linux kernel has this clock
	}
	return time.Duration(t.Nano())
}
