package dispatcher

import (
	"sync"
	"time"
)

// Where workers claim at a high rate, claims come by the moment, and the window holds what
// they take in many of them: looks may be as far apart as three quarters of it last, unless
// most of it goes at once. The same holds for slower workers while more is queued than
// the window has room for. Else the next job may find workers that wait for it.
const (
	restTime = 100 * time.Millisecond // at most
	atPace   = 100                    // jobs a second
	backlog  = 10                     // jobs a second, where there is a backlog
)

// pacer decides when the scheduler looks into the queue: it is told what happens, and what
// each look found.
type pacer struct {
	every time.Duration // between two looks at most
	rate  *claimRate
	asks  chan struct{} // holds one: there is a reason for a look (heard)

	mu     sync.Mutex
	seen   observed
	ticked time.Time // when a look was last due by time alone

	more     bool            // jobs may be queued that a window had no room for
	capped   bool            // jobs are queued that had room: a tenant runs all it may
	claimed  bool            // windows got room since the last look
	queued   bool            // something was queued since the last look
	taken    int             // claimed since the last look
	smallest int             // of the windows at the last look
	behind   map[string]bool // pools that had more queued than room at the look before that
}

// observed is what decides when the next look is.
type observed struct {
	looked time.Time     // when the last look ended
	rest   time.Duration // for how long claims may gather after it
	asked  bool          // there is a reason for another one
	most   bool          // most of a window may have been claimed since
	every  time.Duration
}

// next says whether to look now, and if not, how long to wait if nothing happens.
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

// next is next of what was observed so far.
func (p *pacer) next(now time.Time) (look bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return next(now, p.seen)
}

// ask wants a look.
func (p *pacer) ask() { offer(p.asks) }

// heard notes what was received from asks. What is asked for from then on is worth a look of
// its own.
func (p *pacer) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.asked = true
}

// woke says that something was queued.
func (p *pacer) woke() {
	p.mu.Lock()
	p.queued, p.more = true, true
	p.mu.Unlock()
	p.ask()
}

// room says that windows may have room for what is queued, whoever took it.
func (p *pacer) room() {
	p.mu.Lock()
	p.more = true
	p.mu.Unlock()
	p.took("", 0)
}

// took says that the workers of a pool claimed n jobs. It wants no look unless there is more
// to dispatch.
func (p *pacer) took(pool string, n int) {
	p.rate.add(pool, n)
	p.mu.Lock()
	p.claimed = true
	p.taken += n
	more := p.more
	p.seen.most = p.mostTaken()
	p.mu.Unlock()
	if more {
		p.ask()
	}
}

// mostTaken reports whether three quarters of some window may have been claimed since
// the last look, and others would take their place.
func (p *pacer) mostTaken() bool { return p.more && p.smallest > 0 && 4*p.taken >= 3*p.smallest }

// ended says that jobs left workers: their tenants may run more.
func (p *pacer) ended() {
	p.mu.Lock()
	capped := p.capped
	p.mu.Unlock()
	if capped {
		p.ask()
	}
}

// look is one look of the scheduler.
type look struct {
	due  bool // by time alone: something may have happened that nobody told
	room bool // windows got room since the look before
	// left is what is found now and was not queued since the last look: that one had no
	// room for it, or its tenant could not have more then. Of what is found among what was
	// queued nothing is known: there is still a backlog if there was one.
	left     bool
	found    int
	smallest int                      // window
	held     map[string]time.Duration // by pool, how long its workers are busy with what the windows hold
	behind   map[string]bool
}

// begin begins a look.
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

// offered notes the window that some pools share, before it is filled. How long it lasts
// counts for a pool if that is the shortest: perhaps only that one is full.
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

// end ends a look that saw all there is; pools are those that have workers. It reports whether
// there was room and nothing came of it (settle).
func (p *pacer) end(l *look, now time.Time, pools []string) (idle bool) {
	rates := make(map[string]float64, len(pools))
	for _, pool := range pools {
		rates[pool] = p.rate.of(pool)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind, p.smallest = l.behind, l.smallest
	if l.found > 0 {
		p.more = true // perhaps not, but who knows
		p.capped = false
	}
	p.seen.looked, p.seen.rest, p.seen.most = now, restAfter(l, rates), p.mostTaken()
	return l.found == 0 && l.room
}

// failed ends a look that came to nothing: whatever there is, the next one finds it.
func (p *pacer) failed(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.looked, p.seen.rest = now, 0
}

// skipped says that a look was due that is somebody else's to take.
func (p *pacer) skipped(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.looked, p.seen.rest, p.seen.asked, p.seen.most = now, 0, false, false
}

// restAfter is for how long claims may gather after a look, by the jobs a second that each
// pool with workers takes.
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

// drained says that nothing seems to be queued. What is queued from then on counts.
func (p *pacer) drained() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more = false
}

// settled says what there is after all, if nothing of it could be dispatched: nothing, and
// claims need not be followed by a look; or what may not run now, and then ends must be.
func (p *pacer) settled(empty bool) {
	p.mu.Lock()
	if empty {
		p.capped = false
		p.mu.Unlock()
		return
	}
	p.more = true
	// Neither claims since a moment ago nor ends until now have led to a look.
	again := p.claimed || !p.capped
	p.capped, p.claimed = true, p.claimed || again
	p.mu.Unlock()
	if again {
		p.ask()
	}
}
