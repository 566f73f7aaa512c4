package dispatcher

import (
	"sync"
	"time"
)

// rateEvery is the time over which the rate is measured.
const rateEvery = 500 * time.Millisecond

// claimRate measures how many jobs a second the workers of each pool take from here.
// With several dispatchers each sees its share, and the shares of the window add
// up.
type claimRate struct {
	mu     sync.Mutex
	since  time.Time
	counts map[string]int     // since then
	rates  map[string]float64 // before that
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

// of returns the jobs a second of some pools: the higher of before and now, so that a
// pool that wakes up is not held back.
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
