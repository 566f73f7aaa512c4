package share

import (
	"sync"
	"time"
)

// Pace limits the average rate of events (the generic cell rate algorithm). The burst is one
// second's worth, at least one event. A larger burst delays the next event accordingly.
type Pace struct {
	mu  sync.Mutex
	due time.Time // the time of the next event if all came evenly
}

// Take counts n events at the given rate per second. If it is too early for more, it counts nothing
// and returns how long to wait.
func (p *Pace) Take(n, perSecond float64) (early time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	one := float64(time.Second) / perSecond
	if from := p.due.Add(-max(time.Second-time.Duration(one), 0)); from.After(now) {
		return from.Sub(now)
	}
	p.add(now, time.Duration(n*one))
	return 0
}

// idle reports whether a new Pace would do the same.
func (p *Pace) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.due.After(time.Now())
}

// charge counts n events that already happened, however early.
func (p *Pace) charge(n, perSecond float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(time.Now(), time.Duration(n*float64(time.Second)/perSecond))
}

func (p *Pace) add(now time.Time, d time.Duration) {
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(d)
}
