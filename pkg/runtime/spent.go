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

// MostTime is how long a program may take that has this limit in its own time, however much its
// clock stands. Nobody waits longer for cores that it does not get.
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

// Hear notes that the worker has read a message by which one of the programs has done what it was asked for. Since it was sent, the
// program may have waited for the worker.
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
