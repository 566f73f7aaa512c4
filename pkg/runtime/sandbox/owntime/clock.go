// Package owntime measures the time of a program in a sandbox, excluding its waits for a core.
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

// doubtful is the largest credit for a suspected wait.
const doubtful = 300 * time.Millisecond

// clockEvery is the interval between looks at a program's threads. Waits of a process that ended
// since the last look are unknown.
const clockEvery = 100 * time.Millisecond

// Clock measures how long a program waited for a core. Its own time excludes these waits, so that a
// limit means the same on an idle host and on a busy one. Clock is safe for concurrent use.
//
// Between two looks a program waited as long as its longest waiting thread, but no longer than the
// time in which it had no core at all. So its own time is at least its CPU time. Threads that wait
// for each other look like threads that wait for other programs. Such a program can gain as much
// time as its CPU time, so it gets at most twice its limit.
//
// Some time between two looks cannot be classified:
//   - Threads may have started and ended in it, as CPU time of no living thread shows.
//   - The program may have sent a message and waited for a worker without a core.
//
// Then the program gets the benefit of the doubt. Its wait counts as the part of the time without
// CPU use in which the host had tasks without a core. On an idle host this is zero.
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
	Toll     *toll.Meter // measures and limits the looks; nil: neither

	mu             sync.Mutex
	at             time.Time // of the last look
	cpu, throttled time.Duration
	seen           map[int]threadTime
	waited         time.Duration
	free           time.Duration // part of the last look's time that may belong to an unfinished wait
	busy           bool          // at the last look it used a core, or waited for one, for a while
	more           time.Duration // part of the seen waits that may belong to later time
	counted        bool          // throttled belongs to this program only: see Sum

	stalled [2]time.Duration // of the host: at the look before the last one, and at the last one
}

// unseen is the least CPU time of ended threads that counts as evidence of them. Smaller
// differences may arise because two counters are read at different times.
const unseen = 300 * time.Microsecond

// threadTime is a thread's times at a look.
type threadTime struct {
	cgroup.ThreadTime
	pending  time.Duration // of an unfinished wait
	runnable bool
}

// Messages describes a program's messages to the worker. After one, the program may wait for the
// worker.
type Messages interface {
	Unread() bool // there is one that the worker has not read
	Read() bool   // the worker has read one since the last call
}

// New returns the clock of the next program of a group, which starts at Start. usage returns the
// program's usage since then. messages is nil if it sends none.
func New(g cgroup.Group, usage func() (cgroup.Usage, error), messages Messages) *Clock {
	c := &Clock{threads: g, timeOf: cgroup.TimeOf, runnable: cgroup.Runnable, usage: usage, host: cgroup.Stalled, since: time.Since, messages: messages, seen: map[int]threadTime{}}
	c.begin()
	return c
}

// begin reads how long the host has stalled. On a busy host the worker may continue long after the
// program has started, so this is read before.
func (c *Clock) begin() {
	now := c.hostStalled()
	c.stalled = [2]time.Duration{now, now}
}

// Start starts the program's time.
func (c *Clock) Start(began time.Time) { c.Began, c.at = began, began }

// Sum prepares the clock for All. It is called before the first look.
func (c *Clock) Sum() {
	throttled, err := c.threads.Throttled()
	if err != nil { // the first look reports the error
		return
	}
	c.counted, c.throttled = true, throttled
}

// Sums reports whether Sum was called.
func (c *Clock) Sums() bool { return c.counted }

// All returns how long the program waited until it ended with this CPU time. After the last look,
// the wait is the time without CPU use, and at most the host's stalled time. All is for sums over
// many short programs, whose unseen times would add up.
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

// hostStalled returns how long the host has had tasks without a core since boot. If the kernel does
// not measure that, it adds up to doubtful between two looks.
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

// Left returns the rest of a limit. waited includes the waits of programs that share its time, and
// least is the minimum time for its CPU time. Simultaneous waits are counted twice, so without
// least the clock might stop for ever.
func (c *Clock) Left(now time.Time, limit, waited, least time.Duration) time.Duration {
	return limit - max(now.Sub(c.Began)-waited, least)
}

// Needed returns the least time in which a program with this many cores can use this CPU time.
func Needed(cpu time.Duration, cores float64) time.Duration {
	return cpu / time.Duration(max(math.Ceil(cores), 1))
}

// Read returns the wait until now, or until the program's end, for a runtime.Waits. It counts a
// wait since the last look, up to doubtful; the next look corrects that. Read does not look if the
// ration is used up.
func (c *Clock) Read() time.Duration {
	now := time.Now()
	if c.Toll.Affords(now) {
		if u, err := c.usage(); err == nil { // otherwise the watch of the program gets the error, too
			_ = c.Look(now, u.CPU)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited + min(c.free, doubtful)
}

// LastWait returns the total wait at the last look.
func (c *Clock) LastWait() time.Duration {
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

// Look adds the wait since the last look. cpu is the program's usage since its start, read after
// now. On a busy host a look takes long and its readings differ in time, which the next look
// corrects.
//
// A look that finds no thread adds nothing: the program ended at an unknown time since the last
// look. See All. A look with an unread message adds nothing either: the next look after the worker
// has read it adds that time.
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
			continue // it has ended
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
	if c.at.Equal(c.Began) && !c.counted { // the meter of a reused group
		held = 0
	}
	slack := c.since(now)
	idle := max(passed-(cpu-c.cpu), 0)
	free, waits := idle+c.free, longest+c.more
	took := min(waits, free)
	stalled := c.hostStalled()
	if cpu-c.cpu-ran > unseen || read {
		// A worker without a core stops between two readings of a look. So the host's stall at that
		// time may be in the previous look.
		took += min(max(stalled-c.stalled[0]-took, 0), free-took)
	}
	c.waited += max(took-held, 0)
	free -= took
	switch { // the kernel reports a wait after its end
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

// timeOfThread returns the times of a thread. The kernel only reports finished waits. A thread that
// was runnable at the last look, still is, and made no progress has waited since then.
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
