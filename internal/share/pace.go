package share

import (
	"sync"
	"time"
)

// Pace holds what comes to a rate in the mean. As much as comes in a second may come at
// once, one at least; whatever is more than that has to be made up for before the next
// (the generic cell rate algorithm).
type Pace struct {
	mu  sync.Mutex
	due time.Time // when the next would come if all came evenly
}

// Take counts n, at a rate of so many per second, unless it is too early for more: then
// it returns for how long.
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

// charge counts n that came already, however early.
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
