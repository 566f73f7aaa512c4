package httpapi

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Limits are what one dispatcher bears. Zeros are the defaults.
type Limits struct {
	Batch    job.Size // largest streamed batch, both as it was sent and unpacked; default 4Gi
	Spool    job.Size // of bodies on the disk, all together; default 4Gi
	Memory   job.Size // of bodies in memory, all together; default 256Mi
	Requests int      // at once, those that wait and those that stream included; default 8192
	Queued   int64    // jobs of one tenant that are not over, unless its ceiling says so; default 10 million

	Patience time.Duration // with a body that stands still; default 15s
}

func (l Limits) withDefaults() Limits {
	size := func(s *job.Size, def job.Size) {
		if *s == 0 {
			*s = def
		}
	}
	size(&l.Batch, 4*job.GiB)
	size(&l.Spool, 4*job.GiB)
	size(&l.Memory, 256*job.MiB)
	if l.Requests == 0 {
		l.Requests = 8192
	}
	if l.Patience == 0 {
		l.Patience = 15 * time.Second
	}
	if l.Queued == 0 {
		l.Queued = 10_000_000
	}
	return l
}

// Check refuses limits under which requests that the API promises to take could
// not be.
func (l Limits) Check() error {
	l = l.withDefaults()
	switch {
	case l.Batch < 0 || l.Queued < 0:
		return job.Invalid("max-batch, tenant-queued", "must not be negative")
	case l.Spool < 2*maxBlob:
		return job.Invalid("spool", "%s is less than twice the largest blob, %s", l.Spool, job.Size(maxBlob))
	case l.Memory < 2*maxBatchBody:
		return job.Invalid("body-memory", "%s is less than twice the largest body, %s", l.Memory, job.Size(maxBatchBody))
	case l.Patience < 0:
		return job.Invalid("body-patience", "%v is negative", l.Patience)
	case l.Requests < 2:
		return job.Invalid("requests", "%d is less than 2", l.Requests)
	}
	return nil
}

const (
	spoolStep  = 1 << 20
	memoryStep = 1 << 20
	// freeMemory is how much of a body may be read before it is accounted for: most
	// are smaller, and how many there are is bounded with the requests.
	freeMemory = 64 << 10
)

// spooled counts what is read of a body that goes to the disk before it is
// accepted.
type spooled struct {
	io.Reader
	claim claim
	n     int64
}

func (s *spooled) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.n += int64(n)
	if gerr := s.claim.grow(s.n, spoolStep); gerr != nil {
		return 0, gerr
	}
	return n, err
}

// waiting knows how many more jobs a tenant may submit.
type waiting struct {
	store store.Scheduler

	mu    sync.Mutex
	known map[string]*count
}

type count struct {
	n     int64
	until time.Time
}

// maxCounted bounds the memory of it.
const maxCounted = 1000

// room returns how many more jobs a tenant may submit that may have most. What is
// known is a second old at most, or older where counting takes long; what was
// accepted here since is added.
func (q *waiting) room(ctx context.Context, tenant string, most int64) (int64, error) {
	q.mu.Lock()
	c := q.known[tenant]
	if c != nil && time.Now().Before(c.until) {
		defer q.mu.Unlock()
		return most - c.n, nil
	}
	q.mu.Unlock()
	start := time.Now()
	n, err := q.store.Waiting(ctx, tenant)
	if err != nil {
		return 0, fmt.Errorf("count the jobs of %s: %w", tenant, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known) >= maxCounted || q.known == nil {
		q.known = map[string]*count{}
	}
	q.known[tenant] = &count{n: n, until: time.Now().Add(max(time.Second, 20*time.Since(start)))}
	return most - n, nil
}

func (q *waiting) accepted(tenant string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.known[tenant]; c != nil {
		c.n += n
	}
}

// roomForJobs returns how many more jobs the tenant may submit, one at least.
func (s *Server) roomForJobs(ctx context.Context, tenant string) (most, room int64, err error) {
	ceiling, err := s.admit.Ceiling(ctx, tenant)
	if err != nil {
		return 0, 0, err
	}
	most = s.Limits.Queued
	if ceiling.Queued > 0 {
		most = ceiling.Queued
	}
	room, err = s.waiting.room(ctx, tenant, most)
	if err == nil && room < 1 {
		err = tooManyJobs(most)
	}
	return most, room, err
}

func tooManyJobs(most int64) error {
	return fmt.Errorf("%w: %w", job.ErrTooMany,
		job.Invalid("jobs", "the tenant would have more than the %d jobs that may wait and run at once; submit again when some are over", most))
}
