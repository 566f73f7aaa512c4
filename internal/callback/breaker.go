package callback

import (
	"net/url"
	"sync"
	"time"
)

const (
	// breakAfter is how many tries in a row a host does not answer until its breaker opens.
	breakAfter = 5
	// firstBreak is how long it is open at first; it doubles with each try that fails after it.
	firstBreak = 30 * time.Second
	// maxHosts bounds the memory of it.
	maxHosts = 10_000
)

// breaker is a circuit breaker for each host that callbacks go to: a host that does not answer
// costs one try at a time, and not a lane for each callback.
type breaker struct {
	longest time.Duration // that one is open

	mu    sync.Mutex
	hosts map[string]*circuit
}

// circuit is what is known of one host that has failed.
type circuit struct {
	failures int       // in a row
	until    time.Time // when it may be tried again; zero: now
	wait     time.Duration
}

func newBreaker(longest time.Duration) *breaker {
	return &breaker{longest: longest, hosts: map[string]*circuit{}}
}

// enter reports whether the host may be tried, else in what time. While the breaker is open, one
// try is let through each time that the wait is over.
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
	c.until = now.Add(c.wait) // for the others
	return 0, true
}

// leave notes whether the host answered.
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

// hostOf returns the host and port of a URL, and all of a text that is none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	return u.Host
}
