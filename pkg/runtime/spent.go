package runtime

import (
	"errors"
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
