// Package share divides what one dispatcher has between tenants: room for bodies and requests
// (Pot), turns at large reads (Turns), and rates that ceilings set (Quotas).
package share

import (
	"fmt"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// Pot is something that all requests share: room for bodies on the disk or in
// memory, or requests themselves. A tenant gets no more than would still be left
// then, so one alone has half, and whatever it takes, another one finds as much.
type Pot struct {
	what string // in an answer, such as "64Mi of bodies in memory"
	most int64

	mu      sync.Mutex
	all     int64
	tenants map[string]int64
}

// NewPot returns one with room for most, which answers call what.
func NewPot(what string, most int64) *Pot {
	return &Pot{what: what, most: most, tenants: map[string]int64{}}
}

// Take gives n to a tenant: job.ErrUnavailable if nobody would get as much now,
// job.ErrTooMany if the tenant has its share. Both pass.
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

// Give takes n back.
func (p *Pot) Give(tenant string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all -= n
	if p.tenants[tenant] -= n; p.tenants[tenant] == 0 {
		delete(p.tenants, tenant)
	}
}

// Claim is what one request holds of a pot.
type Claim struct {
	Pot    *Pot
	Tenant string
	held   int64
}

// Grow has the request hold n in all, in steps, since a request for every few bytes
// would be one for the lock.
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

// Release gives all of it back.
func (c *Claim) Release() {
	if c.held > 0 {
		c.Pot.Give(c.Tenant, c.held)
		c.held = 0
	}
}
