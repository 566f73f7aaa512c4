package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// maxQuotas is the number of tenants above which quotas of tenants without recent requests are dropped.
const maxQuotas = 10_000

// Quotas enforce the request ceilings of tenants on this dispatcher.
type Quotas struct {
	Ceiling func(ctx context.Context, tenant string) (policy.Ceiling, error)

	mu sync.Mutex
	of map[string]*Quota
	// most is the size of the map at which idle quotas are dropped next: at least maxQuotas.
	most int
}

// Quota is the quota of one tenant.
type Quota struct {
	ceiling         *recent.Value[policy.Ceiling]
	requests, bytes Pace
}

// Tenant returns the quota of a tenant.
func (q *Quotas) Tenant(name string) *Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.of[name]; t != nil {
		return t
	}
	if q.of == nil {
		q.of = map[string]*Quota{}
	}
	if q.most = max(q.most, maxQuotas); len(q.of) >= q.most {
		maps.DeleteFunc(q.of, func(_ string, t *Quota) bool { return t.requests.idle() && t.bytes.idle() })
		q.most = max(maxQuotas, 2*len(q.of))
	}
	t := &Quota{ceiling: &recent.Value[policy.Ceiling]{Age: time.Second, Read: func(ctx context.Context) (policy.Ceiling, error) {
		return q.Ceiling(ctx, name)
	}}}
	q.of[name] = t
	return t
}

// Begin counts a request. The error is job.ErrTooMany if the request is too early. If the ceiling
// cannot be read, there is no limit: a request that needs the database fails by itself.
func (t *Quota) Begin(ctx context.Context, body io.ReadCloser) (io.ReadCloser, error) {
	c, _, _ := t.ceiling.Get(ctx)
	if c.Requests > 0 {
		if early := t.requests.Take(1, c.Requests); early > 0 {
			return nil, Later(early, "a dispatcher accepts %v requests a second from this tenant (requests_per_second of its ceiling)", c.Requests)
		}
	}
	if c.Bytes <= 0 {
		return body, nil
	}
	if early := t.bytes.Take(0, float64(c.Bytes)); early > 0 {
		return nil, Later(early, "a dispatcher accepts bodies of %s a second on average from this tenant (bytes_per_second of its ceiling)", c.Bytes)
	}
	return &chargedBody{body, &t.bytes, float64(c.Bytes)}, nil
}

// chargedBody counts the bytes that are read of a body.
type chargedBody struct {
	io.ReadCloser
	bytes     *Pace
	perSecond float64
}

func (b *chargedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.charge(float64(n), b.perSecond)
	return n, err
}

// LaterError is an error with the time of the next try.
type LaterError struct {
	error
	After time.Duration
}

// Unwrap returns the wrapped error.
func (e *LaterError) Unwrap() error { return e.error }

// Later is a job.ErrTooMany that ends after a known time.
func Later(after time.Duration, format string, args ...any) error {
	return &LaterError{error: fmt.Errorf("%w: %s; try again in %v", job.ErrTooMany, fmt.Sprintf(format, args...), after.Round(time.Millisecond)), After: after}
}

// RetryAfter returns the delay before the next try after an error: whole seconds, at least one.
func RetryAfter(err error) int {
	var l *LaterError
	if !errors.As(err, &l) {
		return 1
	}
	return max(int((l.After+time.Second-1)/time.Second), 1)
}
