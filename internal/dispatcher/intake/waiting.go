package intake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/job"
)

// everyTenant stands for the jobs of all tenants.
const everyTenant = ""

// room is the free part of a quota, and the error above it.
type room struct {
	left int64
	full error
}

// waiting tracks the active jobs and batches of tenants.
type waiting struct {
	store Store

	mu    sync.Mutex // also guards loads
	known map[string]*recent.Value[*load]
}

type load struct{ jobs, batches int64 }

// maxCounted limits the number of tenants in memory.
const maxCounted = 1000

// of returns the active jobs and batches of a tenant. It is at most a second old, or older if
// counting is slow or fails. Jobs accepted here since are included.
func (q *waiting) of(ctx context.Context, tenant string) (load, error) {
	l, known, err := q.counter(tenant).Get(ctx)
	if !known {
		return load{}, fmt.Errorf("count the jobs of %s: %w", tenant, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return *l, nil
}

func (q *waiting) counter(tenant string) *recent.Value[*load] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.known[tenant]; r != nil {
		return r
	}
	if len(q.known) >= maxCounted || q.known == nil {
		all := q.known[everyTenant]
		if q.known = map[string]*recent.Value[*load]{}; all != nil {
			q.known[everyTenant] = all
		}
	}
	r := &recent.Value[*load]{Age: time.Second, Thrift: 20, Within: 15 * time.Second, Read: func(ctx context.Context) (*load, error) {
		jobs, batches, err := q.store.Waiting(ctx, tenant)
		return &load{jobs, batches}, err
	}}
	q.known[tenant] = r
	return r
}

// accepted adds jobs, and batches.
func (q *waiting) accepted(tenant string, jobs, batches int64) {
	for _, of := range []string{tenant, everyTenant} {
		l := q.counter(of).Latest()
		q.mu.Lock()
		if l != nil {
			l.jobs, l.batches = l.jobs+jobs, l.batches+batches
		}
		q.mu.Unlock()
	}
}

// roomForJobs returns how many more jobs the tenant may submit, at least one; otherwise it returns
// an error.
func (s *Service) roomForJobs(ctx context.Context, tenant string) (r room, err error) {
	ceiling, err := s.Admit.Ceiling(ctx, tenant)
	if err != nil {
		return r, err
	}
	most := s.Queued
	if ceiling.Queued > 0 {
		most = ceiling.Queued
	}
	l, err := s.waiting.of(ctx, tenant)
	if err != nil {
		return r, err
	}
	all, err := s.waiting.of(ctx, everyTenant)
	if err != nil {
		return r, err
	}
	r = room{most - l.jobs, tooMany("the tenant would have more than the %d jobs that may wait and run at once; submit again when some are over", most)}
	if left := s.QueuedOfAll - all.jobs; left < r.left {
		r = room{left, tooMany("the fleet would have more than the %d jobs of all tenants that may wait and run at once; submit again when some are over", s.QueuedOfAll)}
	}
	if r.left < 1 {
		return r, r.full
	}
	return r, nil
}

// CheckRoom rejects a batch above the tenant's quota before its body arrives.
func (s *Service) CheckRoom(ctx context.Context, tenant string) error {
	_, err := s.roomForBatch(ctx, tenant)
	return err
}

// roomForBatch is roomForJobs for a batch, which counts itself, too.
func (s *Service) roomForBatch(ctx context.Context, tenant string) (r room, err error) {
	if r, err = s.roomForJobs(ctx, tenant); err != nil {
		return r, err
	}
	ceiling, err := s.Admit.Ceiling(ctx, tenant)
	if err != nil {
		return r, err
	}
	limit := s.Batches
	if ceiling.Batches > 0 {
		limit = ceiling.Batches
	}
	l, err := s.waiting.of(ctx, tenant)
	if err == nil && l.batches >= limit {
		err = fmt.Errorf("%w: %w", job.ErrTooMany,
			job.Invalid("batches", "the tenant has %d batches that are not over, of the %d that it may have; submit again when one is", l.batches, limit))
	}
	return r, err
}

func tooMany(problem string, most int64) error {
	return fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("jobs", problem, most))
}
