// Package capacity decides how many jobs a worker takes and which of them run. It promises each job
// the CPU and memory of its policy, first come first served, and computes how many deliveries to
// request.
package capacity

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// ErrQueueFull ends an attempt that has not started. The running jobs take so long that the job may
// start sooner on another worker.
var ErrQueueFull = errors.New("earlier jobs take long; left to workers with free slots")

// Need is the CPU and memory that one job is promised.
type Need struct {
	Milli  int64 // thousandths of a core
	Memory int64 // bytes
}

// NeedOf returns the needs of a job under a policy.
func NeedOf(p policy.Policy) Need {
	return Need{Milli: int64(p.CPU * 1000), Memory: int64(p.Memory)}
}

// Limits are the resources of a worker.
type Limits struct {
	Slots       int      // most jobs held at once, without old ones
	LongRunning int      // most old jobs at once; above it, no more jobs become old
	CPU         float64  // cores; 0: no bound
	Memory      job.Size // 0: no bound
}

// Capacity tracks the resources of one worker and their promises to jobs.
//
// A job that has run for youngFor is old. It keeps its memory, but frees its cores and its slot for
// the next job. So sleeping jobs occupy no cores, and short jobs do not wait for long ones. The
// runtime informs the kernel about old jobs, so that young ones get a core first.
type Capacity struct {
	mu      sync.Mutex
	total   Need // zero: no bound
	used    Need // cores of young jobs only
	slots   int  // see Limits
	mostOld int  // see Limits
	held    int  // slots that fetches and attempts hold
	old     int  // old jobs among held
	oldMem  int64
	waiting []*waiter
	changed chan struct{} // closed when held shrinks or the estimate changes

	// An estimate from recent jobs. It sizes fetches before any policy is known.
	typical Need
	ran     time.Duration
}

// youngFor is how long a job counts towards the cores of its worker.
const youngFor = 100 * time.Millisecond

type waiter struct {
	need  Need
	ready chan struct{}
}

// Stay is a job's hold on its worker's resources, from Enter to Leave.
type Stay struct {
	c       *Capacity
	need    Need
	entered time.Time
	aging   *time.Timer // guarded by c.mu; nil: it never becomes old
	old     bool        // guarded by c.mu
	left    bool        // guarded by c.mu
	extra   bool        // of a job that already has a Stay
}

func (c *Capacity) begin(n Need) *Stay {
	s := &Stay{c: c, need: n, entered: time.Now()}
	if c.mostOld > 0 {
		c.mu.Lock()
		s.aging = time.AfterFunc(youngFor, s.age)
		c.mu.Unlock()
	}
	return s
}

// age frees the job's cores and slot for the next one. If too many jobs are old already, it tries
// again later.
func (s *Stay) age() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.left:
	case c.old >= c.mostOld:
		s.aging.Reset(youngFor)
	default:
		s.old = true
		c.old++
		c.oldMem += s.need.Memory
		c.used.Milli -= s.need.Milli
		c.signal()
		c.admit()
	}
}

// New returns the capacity of a worker that has promised nothing.
func New(l Limits) *Capacity {
	return &Capacity{
		slots: l.Slots, mostOld: l.LongRunning, total: Need{int64(l.CPU * 1000), int64(l.Memory)},
		changed: make(chan struct{}),
		typical: Need{1000, int64(256 * job.MiB)}, // the documented defaults of a policy
		ran:     ahead,
	}
}

// WaitForRoom waits until another delivery is worth requesting.
func (c *Capacity) WaitForRoom(ctx context.Context) error {
	for {
		c.mu.Lock()
		room, changed := c.room(), c.changed
		c.mu.Unlock()
		if room > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Hold returns how many deliveries to request: at most the given number, perhaps none. Each gets
// one slot, which Free returns.
func (c *Capacity) Hold(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := max(min(c.room(), most), 0)
	c.held += n
	return n
}

// Jobs that are held ahead start here sooner than after a round trip.
const (
	// ahead is how long the jobs that are held ahead typically keep the worker busy. Dispatchers
	// handle a few jobs for hardly more than the cost of one. More jobs would wait longer than the
	// answer to the next claim takes.
	ahead = 50 * time.Millisecond
	// shortRun is the typical run time above which no job is held ahead, and the longest wait of a
	// job that is. Longer jobs are left to workers that have room now.
	shortRun = time.Second
)

// room returns how many more jobs like the recent ones are worth holding. The caller holds c.mu.
func (c *Capacity) room() int {
	fit := c.fit()
	if c.ran < shortRun {
		fit += max(fit, fit*int64(ahead)/max(int64(c.ran), int64(time.Millisecond)))
	}
	return int(min(fit, int64(c.slots))) - (c.held - c.old)
}

// fit returns how many jobs like the recent ones can run at once. The caller holds c.mu.
func (c *Capacity) fit() int64 {
	n := int64(c.slots)
	bound := func(total, each int64) {
		if total > 0 && each > 0 {
			n = min(n, max(total/each, 1))
		}
	}
	bound(c.total.Milli, c.typical.Milli)
	if c.total.Memory > 0 {
		bound(max(c.total.Memory-c.oldMem, 1), c.typical.Memory)
	}
	return n
}

// Seize takes a slot for an assigned job, if fewer jobs are under way than are worth holding.
// Fetches hold the slots of an idle worker, so one slot too many is held until they end.
func (c *Capacity) Seize(underway int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if underway >= c.room()+c.held {
		return false
	}
	c.held++
	return true
}

// Free returns n slots.
func (c *Capacity) Free(n int) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= n
	c.signal()
}

func (c *Capacity) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Enter waits until the needs of a job are free, and takes them until Leave. A job may need more
// cores than exist: its limit then never binds. The caller rejects jobs that need more memory than
// the worker has (see TooLarge). The error is ErrQueueFull if the job should run on another worker.
func (c *Capacity) Enter(ctx context.Context, n Need) (*Stay, error) {
	c.mu.Lock()
	n = c.clamp(n)
	if len(c.waiting) == 0 && c.fits(n) {
		c.take(n)
		c.mu.Unlock()
		return c.begin(n), nil
	}
	w := &waiter{n, make(chan struct{})}
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	patience := time.NewTicker(shortRun)
	defer patience.Stop()
	for {
		select {
		case <-w.ready:
			return c.begin(n), nil
		case <-patience.C:
			if c.yield(w) {
				return nil, ErrQueueFull
			}
		case <-ctx.Done():
			c.abandon(w)
			return nil, context.Cause(ctx)
		}
	}
}

// TryEnter takes further resources for a job that has entered, without waiting. It fails if they
// are not free, if other jobs wait, or if the cores in use would exceed the given number. More
// cores may be promised than the host has. The new Stay does not become old.
func (c *Capacity) TryEnter(n Need, cores int) (*Stay, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.clamp(n)
	if len(c.waiting) > 0 || !c.fits(n) || c.used.Milli+n.Milli > int64(cores)*1000 {
		return nil, false
	}
	c.take(n)
	return &Stay{c: c, need: n, extra: true}, true
}

// yield removes w from the queue if jobs before it keep it from running: jobs take longer than
// estimated when it was requested. As many jobs as can run next stay.
func (c *Capacity) yield(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = max(c.ran, shortRun)
	i := slices.Index(c.waiting, w)
	if i < int(c.fit()) { // or admitted just now
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// abandon removes w from the queue, or frees the resources that it was just given.
func (c *Capacity) abandon(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else {
		c.used = Need{c.used.Milli - w.need.Milli, c.used.Memory - w.need.Memory}
	}
	c.admit() // the next in the queue may be smaller
}

// Leave frees the resources that Enter took.
func (s *Stay) Leave() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.left = true
	if s.aging != nil {
		s.aging.Stop()
	}
	n := s.need
	if s.old {
		c.old--
		c.oldMem -= n.Memory
	} else {
		c.used.Milli -= n.Milli
	}
	c.used.Memory -= n.Memory
	if !s.extra {
		c.learn(n, time.Since(s.entered))
	}
	c.admit()
}

// learn moves the estimate towards a job that needed n and ran for the given time. The caller holds
// c.mu.
func (c *Capacity) learn(n Need, ran time.Duration) {
	c.typical.Milli += (n.Milli - c.typical.Milli) / 8
	c.typical.Memory += (n.Memory - c.typical.Memory) / 8
	c.ran += (ran - c.ran) / 8
}

// TooLarge reports whether a job needs more memory than the worker has.
func (c *Capacity) TooLarge(n Need) bool { return c.total.Memory > 0 && n.Memory > c.total.Memory }

func (c *Capacity) clamp(n Need) Need {
	if c.total.Milli > 0 {
		n.Milli = min(n.Milli, c.total.Milli)
	}
	return n
}

func (c *Capacity) fits(n Need) bool {
	return (c.total.Milli == 0 || c.used.Milli+n.Milli <= c.total.Milli) &&
		(c.total.Memory == 0 || c.used.Memory+n.Memory <= c.total.Memory)
}

func (c *Capacity) take(n Need) {
	c.used = Need{c.used.Milli + n.Milli, c.used.Memory + n.Memory}
}

// admit admits the first jobs of the queue as long as they fit. No job overtakes another: a large
// job would otherwise wait for ever. The caller holds c.mu.
func (c *Capacity) admit() {
	for len(c.waiting) > 0 && c.fits(c.waiting[0].need) {
		c.take(c.waiting[0].need)
		close(c.waiting[0].ready)
		c.waiting = c.waiting[1:]
	}
}

// Used returns the promises to jobs that have entered; for cores, to young jobs only.
func (c *Capacity) Used() Need {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Busy returns how many jobs are held.
func (c *Capacity) Busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// LongRunning returns how many of the held jobs no longer hold a slot.
func (c *Capacity) LongRunning() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.old
}
