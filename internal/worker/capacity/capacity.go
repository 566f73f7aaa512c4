// Package capacity decides how many jobs a worker takes and which of them run: it promises
// each the CPU and memory that its policy allows, first come first served, and says how many
// more deliveries are worth asking for.
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

// ErrQueueFull ends an attempt that has not begun: what runs here takes so long that
// the job may start sooner on another worker.
var ErrQueueFull = errors.New("the jobs before it take long: left to workers that have room")

// Need is what one job is promised.
type Need struct {
	Milli  int64 // thousandths of a core
	Memory int64 // bytes
}

// NeedOf is what a job needs under a policy.
func NeedOf(p policy.Policy) Need {
	return Need{Milli: int64(p.CPU * 1000), Memory: int64(p.Memory)}
}

// Limits are what there is to promise.
type Limits struct {
	Slots       int      // most jobs held at once, but for old ones
	LongRunning int      // old jobs at once; where there are as many, none grows old
	CPU         float64  // cores; 0: no bound
	Memory      job.Size // 0: no bound
}

// Capacity is what one worker has, and to whom it is promised.
//
// A job that has run for youngFor is old: its memory stays its own, its cores and its slot are
// for the next one. So what sleeps keeps no core from anybody, and a job that is over in no time
// does not wait for those that take theirs: the kernel, which the runtime tells who is old,
// gives it a core before them.
type Capacity struct {
	mu      sync.Mutex
	total   Need // zero: no bound
	used    Need // of cores by young jobs alone
	slots   int  // see Limits
	mostOld int  // see Limits
	held    int  // slots given to fetches, and to attempts until they end
	old     int  // of held
	oldMem  int64
	waiting []*waiter
	changed chan struct{} // closed when held shrinks or the estimate changes

	// The typical job of late, to size fetches before any policy is known.
	typical Need
	ran     time.Duration
}

// youngFor is for how long a job counts towards the cores of its worker.
const youngFor = 100 * time.Millisecond

type waiter struct {
	need  Need
	ready chan struct{}
}

// Stay is what a job has of its worker from Enter to Leave.
type Stay struct {
	c       *Capacity
	need    Need
	entered time.Time
	aging   *time.Timer // c.mu; nil: it never grows old
	old     bool        // c.mu
	left    bool        // c.mu
	extra   bool        // of a job that has another one
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

// age lets the next one have the job's cores and slot. Where too many are old already it is tried
// again.
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

// WaitForRoom waits until another job is worth asking for.
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

// Hold returns how many deliveries to ask for, most at most, perhaps none; each comes with
// one slot, to be given back by Free.
func (c *Capacity) Hold(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := max(min(c.room(), most), 0)
	c.held += n
	return n
}

// Jobs that are held ahead start sooner here than they would after a round trip.
const (
	// ahead is how long the jobs that are held ahead typically keep the worker busy:
	// what dispatchers do for a few jobs costs hardly more than for one, and more
	// would wait for longer than the answer to the next claim takes.
	ahead = 50 * time.Millisecond
	// shortRun is how long a job may typically take for any to be held ahead, and how
	// long one may be. Longer ones are left to workers that have room now.
	shortRun = time.Second
)

// room is how many more jobs like the recent ones are worth holding. c.mu is held.
func (c *Capacity) room() int {
	fit := c.fit()
	if c.ran < shortRun {
		fit += max(fit, fit*int64(ahead)/max(int64(c.ran), int64(time.Millisecond)))
	}
	return int(min(fit, int64(c.slots))) - (c.held - c.old)
}

// fit is how many jobs like the recent ones can run at once. c.mu is held.
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

// Seize takes a slot for a job that was not asked for, if fewer jobs are under way
// than are worth holding. Fetches hold the slots of an idle worker: until they are
// over there is one more than there should be.
func (c *Capacity) Seize(underway int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if underway >= c.room()+c.held {
		return false
	}
	c.held++
	return true
}

// Free gives n slots back.
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

// Enter waits until what a job needs is free, and takes it until Leave. A job may ask for
// more cores than there are, because its limit then never binds; more memory
// than the worker has is the caller's to refuse (see TooLarge). The error is
// ErrQueueFull if the job is better off elsewhere.
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

// TryEnter takes for a job that has entered what it can do without, if that is free and nobody waits for it, and no more is
// in use by then than a host with so many cores has: more may be promised. It does not grow old.
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

// yield takes w out of the line if those before it keep it from running: jobs are
// longer than they seemed when it was asked for. As many as can run next stay.
func (c *Capacity) yield(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = max(c.ran, shortRun)
	i := slices.Index(c.waiting, w)
	if i < int(c.fit()) { // or let in just now
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// abandon takes w out of the line, or gives back what it was given at the last moment.
func (c *Capacity) abandon(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else {
		c.used = Need{c.used.Milli - w.need.Milli, c.used.Memory - w.need.Memory}
	}
	c.admit() // the next in line may be smaller
}

// Leave gives back what Enter took.
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

// learn has the typical job be a bit more like one that needed n and ran for so long. c.mu is held.
func (c *Capacity) learn(n Need, ran time.Duration) {
	c.typical.Milli += (n.Milli - c.typical.Milli) / 8
	c.typical.Memory += (n.Memory - c.typical.Memory) / 8
	c.ran += (ran - c.ran) / 8
}

// TooLarge reports whether a job could never run here.
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

// admit lets in whoever is first in line, as long as they fit. Nobody overtakes:
// a large job would otherwise wait for ever. c.mu is held.
func (c *Capacity) admit() {
	for len(c.waiting) > 0 && c.fits(c.waiting[0].need) {
		c.take(c.waiting[0].need)
		close(c.waiting[0].ready)
		c.waiting = c.waiting[1:]
	}
}

// Used returns what is promised to those that have entered: of cores, to young ones.
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

// LongRunning returns how many of them hold no slot any more.
func (c *Capacity) LongRunning() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.old
}
