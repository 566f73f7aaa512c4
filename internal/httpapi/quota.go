package httpapi

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// quotas hold tenants to what their ceilings say of what they send to this dispatcher.
type quotas struct {
	ceiling func(ctx context.Context, tenant string) (policy.Ceiling, error)

	mu sync.Mutex
	of map[string]*quota // of tenants that have tokens, so there are not many
}

type quota struct {
	ceiling         *recent.Value[policy.Ceiling]
	requests, bytes pace
}

func (q *quotas) tenant(name string) *quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.of[name]; t != nil {
		return t
	}
	if q.of == nil {
		q.of = map[string]*quota{}
	}
	t := &quota{ceiling: &recent.Value[policy.Ceiling]{Age: time.Second, Read: func(ctx context.Context) (policy.Ceiling, error) {
		return q.ceiling(ctx, name)
	}}}
	q.of[name] = t
	return t
}

// begin counts a request, which is job.ErrTooMany if it comes too early. Where the
// ceiling cannot be read there is none: what the request wants of the database fails by
// itself.
func (t *quota) begin(ctx context.Context, body io.ReadCloser) (io.ReadCloser, error) {
	c, _, _ := t.ceiling.Get(ctx)
	if c.Requests > 0 {
		if early := t.requests.take(1, c.Requests); early > 0 {
			return nil, later(early, "of this tenant a dispatcher takes %v requests a second (requests_per_second of its ceiling)", c.Requests)
		}
	}
	if c.Bytes <= 0 {
		return body, nil
	}
	if early := t.bytes.take(0, float64(c.Bytes)); early > 0 {
		return nil, later(early, "of this tenant a dispatcher takes bodies of %s a second in the mean (bytes_per_second of its ceiling), and it sent more", c.Bytes)
	}
	return &chargedBody{body, &t.bytes, float64(c.Bytes)}, nil
}

// chargedBody counts what is read of a body.
type chargedBody struct {
	io.ReadCloser
	bytes     *pace
	perSecond float64
}

func (b *chargedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.charge(float64(n), b.perSecond)
	return n, err
}

// laterError says when to say the same again.
type laterError struct {
	error
	after time.Duration
}

func (e *laterError) Unwrap() error { return e.error }

// later is job.ErrTooMany that passes by itself after a time.
func later(after time.Duration, format string, args ...any) error {
	return &laterError{fmt.Errorf("%w: %s; try again in %v", job.ErrTooMany, fmt.Sprintf(format, args...), after.Round(time.Millisecond)), after}
}
