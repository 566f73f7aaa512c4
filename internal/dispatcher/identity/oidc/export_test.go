package oidc

import "time"

// SetPause sets the minimum time between two requests for keys.
func (g *Gate) SetPause(d time.Duration) { g.issuer.pause = d }

// Age sets the age of the keys to d.
func (g *Gate) Age(d time.Duration) {
	g.issuer.mu.Lock()
	defer g.issuer.mu.Unlock()
	g.issuer.fresh = time.Now().Add(-d)
}
