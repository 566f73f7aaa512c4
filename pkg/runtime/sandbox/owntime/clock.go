// Package owntime measures the time of a program in a sandbox, without what it waits for a core.
package owntime

import (
	"errors"
	"io/fs"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// doubtful is for how long a program may live on for a wait that perhaps it is in.
const doubtful = 300 * time.Millisecond

// clockEvery is how far apart looks at the threads of a program are. What a process
// has waited that is gone since the last one is not known.
const clockEvery = 100 * time.Millisecond

// Clock measures how long a program waited for a core. Its own time is the time that passed without that, so a limit means
// the same on an idle host and on a busy one. Clock is safe for concurrent use.
//
// Between two looks a program waited as long as the thread that waited longest, but no longer than the time in which the
// program had no core at all. So its own time is never less than the CPU time that it used. Threads that wait for one another
// look like threads that wait for other programs: such a program can gain as much time as it used CPU, at most twice its limit.
//
// What some of the time between two looks was is unknown:
//   - threads began and ended in it, which shows by CPU time that no living thread used;
//   - the program sent the worker a message, and perhaps waited for the worker, which had no core itself.
//
// Then the program gets the benefit of the doubt: of the time in which it used no core it waited as long as the host had tasks
// without a core. On an idle host that is nothing.
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
	messages Messages
	Began    time.Time   // the program
	Toll     *toll.Meter // measures and rations the looks; nil: neither

	mu             sync.Mutex
	at             time.Time // of the last look
	cpu, throttled time.Duration
	seen           map[int]threadTime
	waited         time.Duration
	free           time.Duration // of the last look's time, what may be part of a wait that was not over
	busy           bool          // at the last look it had used a core for a while, or waited for one
	more           time.Duration // of the waits that it saw, what may be of the time after it
	counted        bool          // throttled is the program's alone: see Sum

	stalled [2]time.Duration // of the host: at the look before the last one, and at the last one
}

// unseen is the least CPU time of threads that are gone, by which the clock knows that there were any. Less can be
// the difference between two counters that are not read at the same time.
const unseen = 300 * time.Microsecond

// threadTime is what a look found of a thread.
type threadTime struct {
	cgroup.ThreadTime
	pending  time.Duration // of a wait that is not over
	runnable bool
}

// Messages are what a program sends to the worker while it runs. After one, the program may wait for the worker.
type Messages interface {
	Unread() bool // there is one that the worker has not read
	Read() bool   // the worker has read one since the last call
}

// New returns the clock of the next program of a group, which begins at Start. usage is what the program has used since then.
// The messages are nil if it sends none.
func New(g cgroup.Group, usage func() (cgroup.Usage, error), messages Messages) *Clock {
	c := &Clock{threads: g, timeOf: cgroup.TimeOf, runnable: cgroup.Runnable, usage: usage, host: cgroup.Stalled, since: time.Since, messages: messages, seen: map[int]threadTime{}}
	c.begin()
	return c
}

// begin reads how long the host has stalled. A busy host may let the worker go on long after the program has begun, so that is
// read before.
func (c *Clock) begin() {
	now := c.hostStalled()
	c.stalled = [2]time.Duration{now, now}
}

// Start begins the program's time.
func (c *Clock) Start(began time.Time) { c.Began, c.at = began, began }

// Sum prepares the clock for All. It is called before the first look.
func (c *Clock) Sum() {
	throttled, err := c.threads.Throttled()
	if err != nil { // the first look meets it, too
		return
	}
	c.counted, c.throttled = true, throttled
}

// Sums reports whether Sum was called.
func (c *Clock) Sums() bool { return c.counted }

// All returns how long the program waited until it ended, when it had used that much CPU time. For the time since the last
// look, the wait is the time without CPU use, and at most the time in which the host had tasks without a core.
// All is for sums over many short programs, each of which would add its unseen time.
func (c *Clock) All(ended time.Time, cpu time.Duration) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	throttled, err := c.threads.Throttled()
	if err != nil {
		return 0, err
	}
	idle := max(ended.Sub(c.at)-(cpu-c.cpu)-(throttled-c.throttled), 0) + c.free
	return c.waited + max(min(idle, c.hostStalled()-c.stalled[0]), 0), nil
}

// hostStalled returns for how long the host has had tasks without a core since it began. Where the kernel does not count that, it
// adds up to doubtful between two looks.
func (c *Clock) hostStalled() time.Duration {
	total, err := c.host()
	if err != nil {
		return c.stalled[1] + doubtful/2
	}
	return total
}

// Due reports whether it is time for another look, and the program's ration allows one.
func (c *Clock) Due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.at) >= clockEvery && c.Toll.Affords(now)
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

// Read returns what was waited until now, or until the program was over. It is for a runtime.Waits. A wait may have begun since
// the last look: Read counts it, up to doubtful, and the next look corrects that. Read does not look if the ration is used up.
func (c *Clock) Read() time.Duration {
	now := time.Now()
	if c.Toll.Affords(now) {
		if u, err := c.usage(); err == nil { // else the watch of the program meets the error, too
			_ = c.Look(now, u.CPU)
		}
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

// Look adds what was waited since the last look. cpu is what the program has used since it began, read after now. On a busy
// host a look itself takes long: its readings are of different times, which evens out with the next look.
//
// A look that finds no thread adds nothing: the program has ended at an unknown time since the last look. See All. Nor does one
// that finds an unread message: the look after the worker has read it adds that time.
func (c *Clock) Look(now time.Time, cpu time.Duration) error {
	defer c.Toll.Begin()()
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
	longest, ran, runnable, lasts := time.Duration(0), time.Duration(0), false, false
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
		ran += t.Ran - was.Ran
		runnable, lasts = runnable || t.runnable, lasts || t.pending > 0
	}
	read := c.messages != nil && c.messages.Read()
	if len(seen) == 0 || !read && c.messages != nil && c.messages.Unread() {
		return nil
	}
	held := throttled - c.throttled
	if c.at.Equal(c.Began) && !c.counted { // the meter of a group that was used before
		held = 0
	}
	slack := c.since(now)
	idle := max(passed-(cpu-c.cpu), 0)
	free, waits := idle+c.free, longest+c.more
	took := min(waits, free)
	stalled := c.hostStalled()
	if cpu-c.cpu-ran > unseen || read {
		// A worker without a core stops between two readings of a look, so what the host stalled then may be in the look before.
		took += min(max(stalled-c.stalled[0]-took, 0), free-took)
	}
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
	c.more = min(max(waits-took, 0), slack)
	c.busy = cpu-c.cpu+took >= passed/4
	c.at, c.cpu, c.throttled, c.seen = now, cpu, throttled, seen
	c.stalled = [2]time.Duration{c.stalled[1], stalled}
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
