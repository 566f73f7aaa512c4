package worker

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// need is what one job is promised.
type need struct {
	milli int64 // thousandths of a core
	mem   int64 // bytes
}

func needOf(p policy.Policy) need {
	return need{milli: int64(p.CPU * 1000), mem: int64(p.Memory)}
}

// capacity admits jobs by the CPU and memory that their policies allow, first
// come first served, and says how many more deliveries are worth asking for.
//
// A job that has run for youngFor is old: its memory stays its own, its cores and its slot are
// for the next one. So what sleeps keeps no core from anybody, and a job that is over in no time
// does not wait for those that take theirs: the kernel, which the runtime tells who is old,
// gives it a core before them.
type capacity struct {
	mu      sync.Mutex
	total   need // zero: no bound
	used    need // of cores by young jobs alone
	slots   int  // most jobs held at once, but for old ones
	held    int  // slots given to fetches, and to attempts until they end
	mostOld int  // old jobs at once; where there are as many, none grows old
	old     int  // of held
	oldMem  int64
	waiting []*waiter
	changed chan struct{} // closed when held shrinks or the estimate changes

	// The typical job of late, to size fetches before any policy is known.
	typical need
	ran     time.Duration
}

// youngFor is for how long a job counts towards the cores of its worker.
const youngFor = 100 * time.Millisecond

type waiter struct {
	need  need
	ready chan struct{}
}

// stay is what a job has of its worker from enter to leave.
type stay struct {
	c       *capacity
	need    need
	entered time.Time
	aging   *time.Timer
	old     bool // c.mu
	left    bool // c.mu
}

func (c *capacity) begin(n need) *stay {
	s := &stay{c: c, need: n, entered: time.Now()}
	if c.mostOld > 0 {
		s.aging = time.AfterFunc(youngFor, s.age)
	}
	return s
}

// age lets the next one have the job's cores and slot. Where too many are old already it is tried
// again.
func (s *stay) age() {
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
		c.oldMem += s.need.mem
		c.used.milli -= s.need.milli
		c.signal()
		c.admit()
	}
}

func newCapacity(slots, mostOld int, cpu float64, memory job.Size) *capacity {
	return &capacity{
		slots: slots, mostOld: mostOld, total: need{int64(cpu * 1000), int64(memory)},
		changed: make(chan struct{}),
		typical: need{1000, int64(256 * job.MiB)}, // the documented defaults of a policy
		ran:     ahead,
	}
}

// waitForRoom waits until another job is worth asking for.
func (c *capacity) waitForRoom(ctx context.Context) error {
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

// hold returns how many deliveries to ask for, most at most, perhaps none; each comes with
// one slot, to be given back by free.
func (c *capacity) hold(most int) int {
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
func (c *capacity) room() int {
	fit := c.fit()
	if c.ran < shortRun {
		fit += max(fit, fit*int64(ahead)/max(int64(c.ran), int64(time.Millisecond)))
	}
	return int(min(fit, int64(c.slots))) - (c.held - c.old)
}

// fit is how many jobs like the recent ones can run at once. c.mu is held.
func (c *capacity) fit() int64 {
	n := int64(c.slots)
	bound := func(total, each int64) {
		if total > 0 && each > 0 {
			n = min(n, max(total/each, 1))
		}
	}
	bound(c.total.milli, c.typical.milli)
	if c.total.mem > 0 {
		bound(max(c.total.mem-c.oldMem, 1), c.typical.mem)
	}
	return n
}

// seize takes a slot for a job that was not asked for, if fewer jobs are under way
// than are worth holding. Fetches hold the slots of an idle worker: until they are
// over there is one more than there should be.
func (c *capacity) seize(underway int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if underway >= c.room()+c.held {
		return false
	}
	c.held++
	return true
}

// free gives n slots back.
func (c *capacity) free(n int) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= n
	c.signal()
}

func (c *capacity) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// enter waits until what a job needs is free, and takes it until leave. A job may ask for
// more cores than there are, because its limit then never binds; more memory
// than the worker has is the caller's to refuse (see tooLarge). The error is
// errQueueFull if the job is better off elsewhere.
func (c *capacity) enter(ctx context.Context, n need) (*stay, error) {
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
				return nil, errQueueFull
			}
		case <-ctx.Done():
			c.abandon(w)
			return nil, context.Cause(ctx)
		}
	}
}

// yield takes w out of the line if those before it keep it from running: jobs are
// longer than they seemed when it was asked for. As many as can run next stay.
func (c *capacity) yield(w *waiter) bool {
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
func (c *capacity) abandon(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else {
		c.used = need{c.used.milli - w.need.milli, c.used.mem - w.need.mem}
	}
	c.admit() // the next in line may be smaller
}

// leave gives back what enter took.
func (s *stay) leave() {
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
		c.oldMem -= n.mem
	} else {
		c.used.milli -= n.milli
	}
	c.used.mem -= n.mem
	c.learn(n, time.Since(s.entered))
	c.admit()
}

// learn has the typical job be a bit more like one that needed n and ran for so long. c.mu is held.
func (c *capacity) learn(n need, ran time.Duration) {
	c.typical.milli += (n.milli - c.typical.milli) / 8
	c.typical.mem += (n.mem - c.typical.mem) / 8
	c.ran += (ran - c.ran) / 8
}

// tooLarge reports whether a job could never run here.
func (c *capacity) tooLarge(n need) bool { return c.total.mem > 0 && n.mem > c.total.mem }

func (c *capacity) clamp(n need) need {
	if c.total.milli > 0 {
		n.milli = min(n.milli, c.total.milli)
	}
	return n
}

func (c *capacity) fits(n need) bool {
	return (c.total.milli == 0 || c.used.milli+n.milli <= c.total.milli) &&
		(c.total.mem == 0 || c.used.mem+n.mem <= c.total.mem)
}

func (c *capacity) take(n need) {
	c.used = need{c.used.milli + n.milli, c.used.mem + n.mem}
}

// admit lets in whoever is first in line, as long as they fit. Nobody overtakes:
// a large job would otherwise wait for ever. c.mu is held.
func (c *capacity) admit() {
	for len(c.waiting) > 0 && c.fits(c.waiting[0].need) {
		c.take(c.waiting[0].need)
		close(c.waiting[0].ready)
		c.waiting = c.waiting[1:]
	}
}

// busy returns how many jobs are held.
func (c *capacity) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// longRunning returns how many of them hold no slot any more.
func (c *capacity) longRunning() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.old
}

// occupied reports whether the host has enough to do, so that what is sent may
// gather for a moment.
func (w *Worker) occupied() bool { return w.underway.Load() >= occupiedBy }

var occupiedBy = 2 * int64(goruntime.NumCPU())

// gatherRoom keeps the pulls of an occupied worker pullRest apart: its slots come free one
// by one, and one pull then asks for several.
func (w *Worker) gatherRoom(ctx context.Context) {
	if w.occupied() {
		pause(ctx, pullRest-time.Since(time.Unix(0, w.pulled.Load())))
	}
}

func (w *Worker) claimRest(delivery) time.Duration {
	if w.occupied() {
		return claimRest
	}
	return 0
}

// finishRest keeps nobody waiting who waits for a single job.
func (w *Worker) finishRest(f finishing) time.Duration {
	if w.occupied() && f.finish.BatchID != "" {
		return finishRest
	}
	return 0
}
