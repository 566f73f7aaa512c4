package live

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Limits limit the worker's commitments to all of its sessions. Sessions are mostly idle, so they
// exceed the worker's resources.
type Limits struct {
	Places int      // concurrent sessions; 0: 1024
	CPU    float64  // cores; 0: unlimited
	Memory job.Size // 0: unlimited
}

// share is the resources committed to sessions.
type share struct {
	places, milli, mem int64
}

func shareOf(p policy.Policy) share {
	return share{places: 1, milli: int64(p.CPU * 1000), mem: int64(p.Memory)}
}

func (s *share) add(o share) {
	s.places, s.milli, s.mem = s.places+o.places, s.milli+o.milli, s.mem+o.mem
}
func (s *share) sub(o share) {
	s.places, s.milli, s.mem = s.places-o.places, s.milli-o.milli, s.mem-o.mem
}

// ledger records how much each tenant's sessions hold. A tenant may take at most as much as remains
// free afterwards: a single one gets half. So another tenant always finds as much, without
// preemption.
type ledger struct {
	most share // zero: unlimited

	mu      sync.Mutex
	all     share
	tenants map[string]*share
}

func newLedger(l Limits) *ledger {
	if l.Places == 0 {
		l.Places = 1024
	}
	return &ledger{most: share{int64(l.Places), int64(l.CPU * 1000), int64(l.Memory)}, tenants: map[string]*share{}}
}

// take adds a session, or returns why there is no room: job.ErrUnavailable if no tenant would get
// any now, job.ErrInvalid if never, job.ErrTooMany if the tenant has its share.
func (l *ledger) take(tenant string, n share) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenants[tenant]
	if t == nil {
		t = &share{}
	}
	for _, r := range []struct {
		what               string
		most, all, have, n int64
		show               func(int64) string
	}{
		{"sessions", l.most.places, l.all.places, t.places, n.places, func(v int64) string { return fmt.Sprint(v) }},
		{"policy.memory", l.most.mem, l.all.mem, t.mem, n.mem, gibibytes},
		{"policy.cpu", l.most.milli, l.all.milli, t.milli, n.milli, func(v int64) string { return fmt.Sprint(float64(v) / 1000) }},
	} {
		free := r.most - r.all - r.n
		switch {
		case r.most == 0:
		case r.n > r.most:
			return job.Invalid(r.what, "%s is more than the %s that this worker gives to all sessions", r.show(r.n), r.show(r.most))
		case free < 0:
			return fmt.Errorf("%w: %s: the sessions of this worker use %s of %s, and this one needs %s",
				job.ErrUnavailable, r.what, r.show(r.all), r.show(r.most), r.show(r.n))
		case r.have > 0 && r.have+r.n > free:
			return fmt.Errorf("%w: %s: this tenant's sessions hold %s of the %s that this worker gives to sessions, and %s more would be above its share; close some",
				job.ErrTooMany, r.what, r.show(r.have), r.show(r.most), r.show(r.n))
		}
	}
	l.tenants[tenant] = t
	t.add(n)
	l.all.add(n)
	return nil
}

// gibibytes formats a size as people read it: 512Mi, 1Gi, 150.7Gi.
func gibibytes(v int64) string {
	if v < int64(job.GiB) || v%int64(job.GiB) == 0 {
		return job.Size(v).String()
	}
	return strconv.FormatFloat(float64(v)/float64(job.GiB), 'f', 1, 64) + "Gi"
}

// give removes a session.
func (l *ledger) give(tenant string, n share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.sub(n)
	if t := l.tenants[tenant]; t.places == n.places {
		delete(l.tenants, tenant)
	} else {
		t.sub(n)
	}
}

// largest returns the tenant with the most committed memory, or "".
func (l *ledger) largest() (tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := int64(-1)
	for name, t := range l.tenants {
		if t.mem > most || t.mem == most && name < tenant {
			tenant, most = name, t.mem
		}
	}
	return tenant
}
