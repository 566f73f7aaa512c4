package dispatcher

import (
	"sync"
	"time"
)

// rateEvery is the period of one measurement.
const rateEvery = 500 * time.Millisecond

// claimRate measures how many jobs per second the workers of each pool claim from this dispatcher. Each dispatcher
// measures its own share; their windows add up.
type claimRate struct {
	mu     sync.Mutex
	since  time.Time
	counts map[string]int     // in this period
	rates  map[string]float64 // of the last period
}

func newClaimRate() *claimRate {
	return &claimRate{since: time.Now(), counts: map[string]int{}, rates: map[string]float64{}}
}

// add counts n claims.
func (p *claimRate) add(pool string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roll()
	p.counts[pool] += n
}

// of returns the claims per second of some pools. It takes the higher rate of the last and this period, so that a
// pool that wakes up is not slowed down.
func (p *claimRate) of(pools ...string) (sum float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roll()
	for _, pool := range pools {
		sum += max(p.rates[pool], float64(p.counts[pool])/rateEvery.Seconds())
	}
	return sum
}

func (p *claimRate) roll() {
	elapsed := time.Since(p.since)
	if elapsed < rateEvery {
		return
	}
	clear(p.rates)
	for pool, n := range p.counts {
		p.rates[pool] = float64(n) / elapsed.Seconds()
	}
	clear(p.counts)
	p.since = time.Now()
}
