package runtime

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Spent is what an attempt has used so far, and which limits it has run into.
type Spent struct {
	CPU           time.Duration
	MemoryPeak    int64 // bytes
	ProcessesPeak int64 // processes and threads at once
	OOMKills      int64 // processes that the kernel killed at the memory limit
	ForksRefused  int64 // processes and threads that the kernel refused
	NoSpace       bool  // its writable space is full
	NoInodes      bool
}

// Meter reads what an attempt has spent. It is safe for concurrent use, and returns
// ErrOver once the attempt's program is gone.
type Meter func() (Spent, error)

// ErrOver says that there is nothing left to read a meter of.
var ErrOver = errors.New("the attempt is over")

// CPUBudget is CPU time that may be used. Attempts that share one use it up
// together. It is safe for concurrent use.
type CPUBudget struct{ limit, spent atomic.Int64 }

// NewCPUBudget returns a budget of so much, of which nothing is spent.
func NewCPUBudget(limit time.Duration) *CPUBudget {
	b := &CPUBudget{}
	b.Allow(limit)
	return b
}

// Allow sets how much may be spent in all, what is spent already included.
func (b *CPUBudget) Allow(limit time.Duration) { b.limit.Store(int64(limit)) }

// Spend counts d as spent and reports whether nothing is left.
func (b *CPUBudget) Spend(d time.Duration) (over bool) {
	return b.spent.Add(int64(d)) >= b.limit.Load()
}

// Left is what may still be spent; zero or less: nothing.
func (b *CPUBudget) Left() time.Duration {
	return time.Duration(b.limit.Load() - b.spent.Load())
}

// Patience bounds how long a program with a limit of its own time may go without a core. It is for one goroutine.
//
// A program that makes progress is never stopped for want of a core, however slow the host is. Another attempt would begin from
// nothing, on the same host perhaps, and waste what this one has used.
type Patience struct {
	limit, left time.Duration
	since       time.Time // of the last progress
}

// progress is the share of its limit that a program uses between two marks of a Patience.
const progress = 20

// NewPatience returns the patience with a program that began at that time.
func NewPatience(began time.Time, limit time.Duration) Patience {
	return Patience{limit: limit, left: limit, since: began}
}

// Over reports whether the program has made no progress for MostTime. left is the rest of its limit at now. Own time of a
// twentieth of the limit is progress, so a program that gets any core at all ends after 20 times MostTime at the latest.
func (p *Patience) Over(now time.Time, left time.Duration) bool {
	if p.left-left >= p.limit/progress {
		p.left, p.since = left, now
	}
	return now.Sub(p.since) >= MostTime(p.limit)
}

// MostTime returns how long a program with this limit may go on without progress.
func MostTime(limit time.Duration) time.Duration { return 20*limit + time.Minute }

// Waits is how long the programs of attempts that share it could run and had no core. The clock of
// each stands for as long as any of them waits: one that is asked cannot answer
// while the other has no core. It is safe for concurrent use, and its zero value is ready.
type Waits struct {
	heard atomic.Int64 // messages by which the programs have done what they were asked for

	mu   sync.Mutex
	past time.Duration // of programs that are over, and of pauses
	live map[*func() time.Duration]struct{}
}

// Total is how long has been waited until now, in all.
func (w *Waits) Total() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := w.past
	for read := range w.live {
		sum += (*read)()
	}
	return sum
}

// Hear notes that the worker has read a program's answer. Since it sent the answer, the program may have waited for the worker.
func (w *Waits) Hear() { w.heard.Add(1) }

// Heard returns how many messages the worker has read.
func (w *Waits) Heard() int64 { return w.heard.Load() }

// Pause counts d as waited, for what programs do not wait for themselves, such as a slot.
func (w *Waits) Pause(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.past += d
}

// Follow adds a program whose waits until now are what read returns, which is called by one
// at a time. When it is over, done takes what it has waited in all.
func (w *Waits) Follow(read func() time.Duration) (done func(all time.Duration)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live == nil {
		w.live = map[*func() time.Duration]struct{}{}
	}
	w.live[&read] = struct{}{}
	return func(all time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.live, &read)
		w.past += all
	}
}
