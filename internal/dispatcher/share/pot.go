// Package share divides the resources of one dispatcher between tenants: room for bodies and
// requests (Pot), turns at large reads (Turns), and the rates of ceilings (Quotas).
package share

import (
	"fmt"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// Pot is a resource that all requests share: room for bodies on disk or in memory, or the requests themselves. A
// tenant gets at most as much as is left afterwards. So a single tenant gets at most half, and as much is left for
// another.
type Pot struct {
	what string // for error messages, such as "64Mi of bodies in memory"
	most int64

	mu      sync.Mutex
	all     int64
	tenants map[string]int64
}

// NewPot returns a Pot with room for most. Error messages call it what.
func NewPot(what string, most int64) *Pot {
	return &Pot{what: what, most: most, tenants: map[string]int64{}}
}

// Take gives n to a tenant. The error is job.ErrUnavailable if no tenant could get as much now, and
// job.ErrTooMany if the tenant has its share. Both are temporary.
func (p *Pot) Take(tenant string, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.most - p.all - n
	if left < 0 {
		return fmt.Errorf("%w: this dispatcher has no room left for %s; try again", job.ErrUnavailable, p.what)
	}
	if p.tenants[tenant]+n > left {
		return fmt.Errorf("%w: this tenant holds its share of this dispatcher's room for %s; try again when other requests are over", job.ErrTooMany, p.what)
	}
	p.all += n
	p.tenants[tenant] += n
	return nil
}

// Give returns n to the pot.
func (p *Pot) Give(tenant string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all -= n
	if p.tenants[tenant] -= n; p.tenants[tenant] == 0 {
		delete(p.tenants, tenant)
	}
}

// Claim is the part of a pot that one request holds.
type Claim struct {
	Pot    *Pot
	Tenant string
	held   int64
}

// Grow raises the claim to at least n, in steps. A call for every few bytes would take the lock too
// often.
func (c *Claim) Grow(n, step int64) error {
	if n <= c.held {
		return nil
	}
	more := (n - c.held + step - 1) / step * step
	if err := c.Pot.Take(c.Tenant, more); err != nil {
		return err
	}
	c.held += more
	return nil
}

// Release returns the whole claim.
func (c *Claim) Release() {
	if c.held > 0 {
		c.Pot.Give(c.Tenant, c.held)
		c.held = 0
	}
}
