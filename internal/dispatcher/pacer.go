package dispatcher

import (
	"sync"
	"time"
)

// At high claim rates claims arrive continuously. So passes may be as far apart as three quarters of a window last,
// unless most of it is claimed at once. At lower rates this holds while more jobs are queued than the window has room
// for. In other cases the scheduler does not wait: workers may be idle.
const (
	restTime = 100 * time.Millisecond // longest pause
	atPace   = 100                    // jobs per second
	backlog  = 10                     // jobs per second, with more queued than the window had room for
)

// pacer decides when the scheduler makes a pass. Callers report events and the findings of each pass to it.
type pacer struct {
	every time.Duration // longest time between two passes
	rate  *claimRate
	asks  chan struct{} // holds one request for a pass (noteRequest)

	mu     sync.Mutex
	seen   observed
	ticked time.Time // when a pass was last due by time alone

	more     bool            // jobs may be queued that a window had no room for
	capped   bool            // queued jobs had room, but their tenants run as many as they may
	claimed  bool            // windows got room since the last pass
	queued   bool            // jobs were queued since the last pass
	taken    int             // jobs claimed since the last pass
	smallest int             // smallest window of the last pass
	behind   map[string]bool // pools with more queued than room at the last pass
}

// observed is the input of the decision about the next pass.
type observed struct {
	looked time.Time     // end of the last pass
	rest   time.Duration // how long claims may gather after it
	asked  bool          // another pass was requested
	most   bool          // most of a window may have been claimed since
	every  time.Duration
}

// next reports whether to make a pass now, and else how long to wait without further events.
func next(now time.Time, o observed) (look bool, wait time.Duration) {
	past := now.Sub(o.looked)
	switch {
	case past < o.rest && !o.most:
		return false, o.rest - past
	case o.asked, past >= o.every:
		return true, 0
	}
	return false, o.every - past
}

func newPacer(every time.Duration) *pacer {
	now := time.Now()
	return &pacer{every: every, rate: newClaimRate(), asks: make(chan struct{}, 1), ticked: now,
		seen: observed{looked: now, every: every}, behind: map[string]bool{}}
}

// next applies next to the observations so far.
func (p *pacer) next(now time.Time) (look bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return next(now, p.seen)
}

// ask requests a pass.
func (p *pacer) ask() { offer(p.asks) }

// noteRequest notes a request received from asks. Later requests need another pass.
func (p *pacer) noteRequest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.asked = true
}

// woke notes that jobs were queued.
func (p *pacer) woke() {
	p.mu.Lock()
	p.queued, p.more = true, true
	p.mu.Unlock()
	p.ask()
}

// room notes that windows may have room, for jobs that left without a claim.
func (p *pacer) room() {
	p.mu.Lock()
	p.more = true
	p.mu.Unlock()
	p.took("", 0)
}

// took notes that the workers of a pool claimed n jobs. It requests a pass only if more jobs may be queued.
func (p *pacer) took(pool string, n int) {
	p.rate.add(pool, n)
	p.mu.Lock()
	p.claimed = true
	p.taken += n
	more := p.more
	p.seen.most = p.isMostlyClaimed()
	p.mu.Unlock()
	if more {
		p.ask()
	}
}

// isMostlyClaimed reports whether three quarters of a window may have been claimed since the last pass while more jobs
// wait.
func (p *pacer) isMostlyClaimed() bool { return p.more && p.smallest > 0 && 4*p.taken >= 3*p.smallest }

// noteEnd notes that jobs left workers, so that their tenants may run more.
func (p *pacer) noteEnd() {
	p.mu.Lock()
	capped := p.capped
	p.mu.Unlock()
	if capped {
		p.ask()
	}
}

// look is one pass of the scheduler.
type look struct {
	due  bool // due by time alone, to find changes that were not reported
	room bool // windows got room since the pass before
	// left is set if all jobs that this pass finds were queued before the last one. That one had no room for them, or
	// their tenants were at their caps. If left is not set, they may be new, and only an earlier backlog counts as one.
	left     bool
	found    int
	smallest int                      // window
	held     map[string]time.Duration // by pool, how long the jobs of its windows keep its workers busy
	behind   map[string]bool
}

// begin starts a pass.
func (p *pacer) begin(now time.Time) *look {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &look{room: p.claimed, left: !p.queued && !p.capped, held: map[string]time.Duration{}, behind: map[string]bool{}}
	if l.due = now.Sub(p.ticked) >= p.every; l.due {
		p.ticked = now
	}
	p.claimed, p.queued, p.taken, p.seen.asked, p.seen.most = false, false, 0, false, false
	return l
}

// offered notes the window that some pools share, before it is filled. Each pool keeps the shortest time that one of
// its windows lasts, since the others may stay empty.
func (p *pacer) offered(l *look, pools []string, window int) {
	if l.smallest == 0 || window < l.smallest {
		l.smallest = window
	}
	lasts := time.Duration(float64(window) / max(p.rate.of(pools...), 1) * float64(time.Second))
	for _, pool := range pools {
		if least, ok := l.held[pool]; !ok || lasts < least {
			l.held[pool] = lasts
		}
	}
}

// filled notes how many jobs the window of some pools took.
func (p *pacer) filled(l *look, pools []string, n int) {
	l.found += n
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pool := range pools {
		l.behind[pool] = l.behind[pool] || n > 0 && (l.left || p.behind[pool])
	}
}

// end ends a pass over all windows. pools are the pools with workers. It reports whether windows had room and no job
// was found (settle).
func (p *pacer) end(l *look, now time.Time, pools []string) (idle bool) {
	rates := make(map[string]float64, len(pools))
	for _, pool := range pools {
		rates[pool] = p.rate.of(pool)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind, p.smallest = l.behind, l.smallest
	if l.found > 0 {
		p.more = true // perhaps not; the next pass shows it
		p.capped = false
	}
	p.seen.looked, p.seen.rest, p.seen.most = now, restAfter(l, rates), p.isMostlyClaimed()
	return l.found == 0 && l.room
}

// failed ends a failed pass. The next one may follow at once.
func (p *pacer) failed(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.looked, p.seen.rest = now, 0
}

// skipped notes a pass that was due on a dispatcher that does not lead.
func (p *pacer) skipped(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.looked, p.seen.rest, p.seen.asked, p.seen.most = now, 0, false, false
}

// restAfter returns how long claims may gather after a pass. rates are the claims per second of each pool with
// workers.
func restAfter(l *look, rates map[string]float64) time.Duration {
	lasts := 2 * restTime
	for pool, rate := range rates {
		if rate < backlog || rate < atPace && !l.behind[pool] {
			return 0
		}
		lasts = min(lasts, l.held[pool])
	}
	return min(restTime, lasts*3/4)
}

// drained notes that no jobs seem to be queued. Jobs that are queued later count.
func (p *pacer) drained() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more = false
}

// settled notes, after a pass that dispatched nothing, whether the queue is empty. If it is not, the queued jobs may
// not run now, so ends of jobs lead to passes from now on.
func (p *pacer) settled(empty bool) {
	p.mu.Lock()
	if empty {
		p.capped = false
		p.mu.Unlock()
		return
	}
	p.more = true
	// Claims of the last moment, and ends until now, have not led to a pass.
	again := p.claimed || !p.capped
	p.capped, p.claimed = true, p.claimed || again
	p.mu.Unlock()
	if again {
		p.ask()
	}
}
