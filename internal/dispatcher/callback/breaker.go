package callback

import (
	"net/url"
	"sync"
	"time"
)

const (
	// breakAfter is the number of unanswered tries in a row that opens a host's breaker.
	breakAfter = 5
	// firstBreak is how long the breaker stays open at first. Each further unanswered try doubles it.
	firstBreak = 30 * time.Second
	// maxHosts bounds the number of circuits.
	maxHosts = 10_000
)

// breaker has a circuit breaker for each host that callbacks go to. A host that does not answer takes one lane at a
// time instead of one for each callback.
type breaker struct {
	longest time.Duration // longest time that a breaker stays open

	mu    sync.Mutex
	hosts map[string]*circuit
}

// circuit is the state of one host with unanswered tries.
type circuit struct {
	failures int       // in a row
	until    time.Time // start of the next try; zero: now
	wait     time.Duration
}

func newBreaker(longest time.Duration) *breaker {
	return &breaker{longest: longest, hosts: map[string]*circuit{}}
}

// enter reports whether the host may be tried, or else how long to wait. An open breaker admits one try at the end of
// each wait.
func (b *breaker) enter(host string, now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.hosts[host]
	if c == nil || c.failures < breakAfter {
		return 0, true
	}
	if wait := c.until.Sub(now); wait > 0 {
		return wait, false
	}
	c.until = now.Add(c.wait) // other tries wait
	return 0, true
}

// leave records whether the host answered.
func (b *breaker) leave(host string, now time.Time, answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answered {
		delete(b.hosts, host)
		return
	}
	c := b.hosts[host]
	if c == nil {
		if len(b.hosts) >= maxHosts {
			clear(b.hosts)
		}
		c = &circuit{}
		b.hosts[host] = c
	}
	if c.failures++; c.failures >= breakAfter {
		c.wait = min(max(2*c.wait, firstBreak), b.longest)
		c.until = now.Add(c.wait)
	}
}

// hostOf returns the host and port of a URL, or the whole text if it is not a URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	return u.Host
}
