// Package owntime measures the time of a program in a sandbox, without what it waits for a core.
package owntime

import (
	"errors"
	"io/fs"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// doubtful is for how long a program may live on for a wait that perhaps it is in.
const doubtful = 300 * time.Millisecond

// clockEvery is how far apart looks at the threads of a program are. What a process
// has waited that is gone since the last one is not known.
const clockEvery = 100 * time.Millisecond

// Clock measures what a program has waited for a core: its time is what passed without
// that, so that a limit means the same on an idle machine and on a busy one. It is safe
// for concurrent use.
//
// What a program waited between two looks is what its thread that waited longest did, but
// no more than the time in which it had no core at all: of one core's worth of CPU time, and
// of what its own limit of CPU held it back, it has the use. So its time is never less
// than the CPU time that it used. Threads that wait for one another where nobody else
// does look like threads that wait for others: such a program may have as much time again as it
// used CPU, and never more than twice its limit.
type Clock struct {
	threads interface {
		Threads() ([]int, error)
		Throttled() (time.Duration, error)
	}
	timeOf   func(tid int) (cgroup.ThreadTime, error)
	runnable func(tid int) (bool, error)
	usage    func() (cgroup.Usage, error)
	host     func() (time.Duration, error)
	since    func(time.Time) time.Duration
	Began    time.Time // the program

	mu             sync.Mutex
	at             time.Time // of the last look
	cpu, throttled time.Duration
	seen           map[int]threadTime
	waited         time.Duration
	free           time.Duration // of the last look's time, what may be part of a wait that was not over
	busy           bool          // at the last look it had used a core for a while, or waited for one
	more           time.Duration // of the waits that it saw, what may be of the time after it

	stalls  bool             // what a program waited counts in a sum, so that what no look has seen is to be told, too: see All
	stalled [2]time.Duration // of the host: at the look before the last one, and at the last one
}

// threadTime is what a look found of a thread.
type threadTime struct {
	cgroup.ThreadTime
	pending  time.Duration // of a wait that is not over
	runnable bool
}

// New returns the clock of a program of a group, which began then. usage is what it has used since.
func New(g cgroup.Group, usage func() (cgroup.Usage, error), began time.Time) *Clock {
	return &Clock{
		threads: g, timeOf: cgroup.TimeOf, runnable: cgroup.Runnable, usage: usage, host: cgroup.Stalled, since: time.Since, Began: began, at: began, seen: map[int]threadTime{},
	}
}

// Sum has the clock tell of all that the program waits: see All. It is called before the first look.
func (c *Clock) Sum() {
	throttled, err := c.threads.Throttled()
	if err != nil { // the first look meets it, too
		return
	}
	c.stalls, c.throttled, c.stalled[1] = true, throttled, c.hostStalled()
	c.stalled[0] = c.stalled[1]
}

// Sums reports whether Sum was called.
func (c *Clock) Sums() bool { return c.stalls }

// All is what the program waited until it was over, when it had used so much CPU time. Of the time since the last look, at which
// its threads were seen, it has the benefit of the doubt: what it did not use of that it has waited, as far as anybody on the host had to wait for a core.
// It is for a sum over many short programs, of which each would add what was not seen of it.
func (c *Clock) All(ended time.Time, cpu time.Duration) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	throttled, err := c.threads.Throttled()
	if err != nil {
		return 0, err
	}
	unseen := max(ended.Sub(c.at)-(cpu-c.cpu)-(throttled-c.throttled), 0) + c.free
	return c.waited + max(min(unseen, c.hostStalled()-c.stalled[0]), 0), nil
}

// hostStalled is for how long something on the host has waited for a core since it began. Where the kernel does not say so, time counts up to
// doubtful between two looks.
func (c *Clock) hostStalled() time.Duration {
	total, err := c.host()
	if err != nil {
		return c.stalled[1] + doubtful/2
	}
	return total
}

// Due reports whether it is time for another look.
func (c *Clock) Due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.at) >= clockEvery
}

// Left is how much of a limit there is for a program that waited for so long, with those that it
// shares its time with, and needed at least some time for what it did. Two that wait at the same
// time are counted twice, so that the clock might stand for ever.
func (c *Clock) Left(now time.Time, limit, waited, least time.Duration) time.Duration {
	return limit - max(now.Sub(c.Began)-waited, least)
}

// Needed is the least time in which a program with so many cores used that much CPU time.
func Needed(cpu time.Duration, cores float64) time.Duration {
	return cpu / time.Duration(max(math.Ceil(cores), 1))
}

// Starved reports whether a program under this limit has waited for as long as it may.
func (c *Clock) Starved(now time.Time, limit time.Duration) bool {
	return now.Sub(c.Began) >= runtime.MostTime(limit)
}

// Read is for a runtime.Waits: what was waited until now, or until the program was over. Of a
// wait that may have begun since the last look it has the benefit of the doubt, up to
// doubtful: the next look knows.
func (c *Clock) Read() time.Duration {
	now := time.Now()
	if u, err := c.usage(); err == nil { // else whoever watches the program meets it, too
		_ = c.Look(now, u.CPU)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited + min(c.free, doubtful)
}

// Known is what the last look found to have been waited in all.
func (c *Clock) Known() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// Worked reports whether the program used a core, or waited for one, for a good part of the time
// before the last look.
func (c *Clock) Worked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// Look takes note of what was waited since the last look; cpu is what the program has
// used since it began, read after now. Where the machine is busy, so is whoever looks: what is read
// in one look is of different times, and evens out with the next one.
func (c *Clock) Look(now time.Time, cpu time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := now.Sub(c.at)
	ids, err := c.threads.Threads()
	if err != nil {
		return err
	}
	throttled, err := c.threads.Throttled()
	if err != nil {
		return err
	}
	longest, runnable, lasts := time.Duration(0), false, false
	seen := make(map[int]threadTime, len(ids))
	for _, id := range ids {
		t, err := c.timeOfThread(id, passed)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it is gone
		}
		if err != nil {
			return err
		}
		seen[id] = t
		was := c.seen[id]
		longest = max(longest, t.Waited+t.pending-was.Waited-was.pending)
		runnable, lasts = runnable || t.runnable, lasts || t.pending > 0
	}
	held := throttled - c.throttled
	if c.at.Equal(c.Began) && !c.stalls { // the meter of a group that was used before
		held = 0
	}
	slack := c.since(now)
	idle := max(passed-(cpu-c.cpu), 0)
	free, waits := idle+c.free, longest+c.more
	took := min(waits, free)
	c.waited += max(took-held, 0)
	free -= took
	switch { // the kernel tells of a wait when it is over
	case lasts:
		c.free = free
	case runnable:
		c.free = min(free, idle)
	default:
		c.free = min(free, slack)
	}
	c.more = min(waits-took, slack)
	c.busy = cpu-c.cpu+took >= passed/4
	c.at, c.cpu, c.throttled, c.seen = now, cpu, throttled, seen
	if c.stalls {
		c.stalled = [2]time.Duration{c.stalled[1], c.hostStalled()}
	}
	return nil
}

// timeOfThread is the time of a thread. The kernel knows of a wait when it is over: one that
// could run at the last look, and can, and has not got on, has waited since then.
func (c *Clock) timeOfThread(id int, passed time.Duration) (t threadTime, err error) {
	if t.ThreadTime, err = c.timeOf(id); err != nil {
		return t, err
	}
	if t.runnable, err = c.runnable(id); err != nil {
		return t, err
	}
	was, known := c.seen[id]
	if known && was.ThreadTime == t.ThreadTime && was.runnable && t.runnable {
		t.pending = was.pending + passed
	}
	return t, err
}
