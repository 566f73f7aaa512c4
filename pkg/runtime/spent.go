package runtime

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Spent is an attempt's usage so far, and the limits it has reached.
type Spent struct {
	CPU           time.Duration
	MemoryPeak    int64 // bytes
	ProcessesPeak int64 // maximum of simultaneous processes and threads
	OOMKills      int64 // processes killed by the kernel at the memory limit
	ForksRefused  int64 // processes and threads refused by the kernel
}

// Meter reads the usage of a program. It is safe for concurrent use. After the program's end, its
// methods return ErrOver.
type Meter interface {
	// Spent returns the usage so far.
	Spent() (Spent, error)
	// Full reports whether the writable space, or the number of its files, is used up.
	Full() (space, files bool, err error)
}

// ErrOver means that the program of a meter has ended.
var ErrOver = errors.New("the attempt is over")

// CPUBudget is an amount of CPU time, possibly shared by several attempts. It is safe for
// concurrent use.
type CPUBudget struct{ limit, spent atomic.Int64 }

// NewCPUBudget returns an unused budget with this limit.
func NewCPUBudget(limit time.Duration) *CPUBudget {
	b := &CPUBudget{}
	b.Allow(limit)
	return b
}

// Allow sets the total limit, including the time already spent.
func (b *CPUBudget) Allow(limit time.Duration) { b.limit.Store(int64(limit)) }

// Spend adds d and reports whether the budget is exhausted.
func (b *CPUBudget) Spend(d time.Duration) (over bool) {
	return b.spent.Add(int64(d)) >= b.limit.Load()
}

// Left returns the remaining time; zero or less means none.
func (b *CPUBudget) Left() time.Duration {
	return time.Duration(b.limit.Load() - b.spent.Load())
}

// Patience limits how long a program with a limit of its own time may go without a core. Only one
// goroutine may use it.
//
// It never stops a program that makes progress, however slow the host is. Another attempt would
// start from the beginning, perhaps on the same host, and waste this one's work.
type Patience struct {
	limit, left time.Duration
	since       time.Time // time of the last progress
}

// progress is the divisor of a program's limit that counts as progress.
const progress = 20

// NewPatience returns the patience for a program that started at began.
func NewPatience(began time.Time, limit time.Duration) Patience {
	return Patience{limit: limit, left: limit, since: began}
}

// Over reports whether the program has made no progress for MostTime. left is the rest of its limit
// at now. Own time of a twentieth of the limit is progress. So a program that gets any core time
// ends after at most 20 times MostTime.
func (p *Patience) Over(now time.Time, left time.Duration) bool {
	if p.left-left >= p.limit/progress {
		p.left, p.since = left, now
	}
	return now.Sub(p.since) >= MostTime(p.limit)
}

// MostTime returns how long a program with this limit may continue without progress.
func MostTime(limit time.Duration) time.Duration { return 20*limit + time.Minute }

// Waits is how long the programs of one or more attempts were runnable without a core. While any of
// them waits, the clocks of all stop, because programs wait for each other's responses. It is safe
// for concurrent use, and its zero value is ready.
type Waits struct {
	heard atomic.Int64 // responses from the programs

	mu   sync.Mutex
	past time.Duration // of ended programs, and of pauses
	live map[*func() time.Duration]struct{}
}

// Total returns the total wait so far.
func (w *Waits) Total() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := w.past
	for read := range w.live {
		sum += (*read)()
	}
	return sum
}

// CountResponse records that the worker has read a program's response. Since the response was sent, the
// program may have waited for the worker.
func (w *Waits) CountResponse() { w.heard.Add(1) }

// Responses returns the number of messages that the worker has read.
func (w *Waits) Responses() int64 { return w.heard.Load() }

// Pause adds d for waits outside of programs, such as for a slot.
func (w *Waits) Pause(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.past += d
}

// Follow adds a program. read returns its waits so far and is never called concurrently. At the
// program's end, call done with its total.
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
