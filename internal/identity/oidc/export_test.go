package oidc

import "time"

// SetPause says how long lies between two questions for keys.
func (g *Gate) SetPause(d time.Duration) { g.issuer.pause = d }

// Age has keys be as old as d.
func (g *Gate) Age(d time.Duration) {
	g.issuer.mu.Lock()
	defer g.issuer.mu.Unlock()
	g.issuer.fresh = time.Now().Add(-d)
}
