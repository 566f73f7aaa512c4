package submit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
)

// columns are the jobs of one statement as arrays.
type columns struct {
	id                             []pgtype.UUID
	pool, retryOn, trace, identity []string
	priority, maxAttempts          []int32
	expires                        []int64 // ms
	spec                           [][]byte
	lane                           []int32
	caps                           []*string
	cacheKey                       [][]byte
}

func (c *columns) args() []any {
	return []any{c.id, c.pool, c.priority, c.maxAttempts, c.retryOn, c.expires, c.trace, c.identity, c.spec, c.lane, c.caps, c.cacheKey}
}

// expiring reports whether a job may wait for some time only.
func (c *columns) expiring() bool {
	return slices.ContainsFunc(c.expires, func(ms int64) bool { return ms > 0 })
}

// queues returns the queues of a tenant that the jobs are in.
func (c *columns) queues(tenant int32) (qs []store.Queue) {
	for i, class := range c.pool {
		if q := (store.Queue{Tenant: tenant, Class: class}); i == 0 || class != c.pool[i-1] && !slices.Contains(qs, q) {
			qs = append(qs, q)
		}
	}
	return qs
}

// span returns the smallest and the largest id, the range of the batch's ids.
func (c *columns) span() []any {
	if len(c.id) == 0 {
		return []any{nil, nil}
	}
	byBytes := func(a, b pgtype.UUID) int { return bytes.Compare(a.Bytes[:], b.Bytes[:]) }
	return []any{slices.MinFunc(c.id, byBytes), slices.MaxFunc(c.id, byBytes)}
}

func columnsOf(jobs []store.NewJob) (*columns, error) {
	n := len(jobs)
	c := &columns{
		id: make([]pgtype.UUID, n), pool: make([]string, n), retryOn: make([]string, n), trace: make([]string, n),
		identity: make([]string, n), priority: make([]int32, n), maxAttempts: make([]int32, n), expires: make([]int64, n),
		spec: make([][]byte, n), lane: make([]int32, n), caps: make([]*string, n), cacheKey: make([][]byte, n),
	}
	for i, j := range jobs {
		if err := c.id[i].Scan(string(j.ID)); err != nil {
			return nil, fmt.Errorf("%w: job id %q", job.ErrInvalid, j.ID)
		}
		identity, err := format.Identity(j.Spec, j.TraceParent)
		if err != nil {
			return nil, fmt.Errorf("spec of job %s: %w", j.ID, err)
		}
		c.pool[i], c.trace[i], c.identity[i], c.spec[i] = j.Pool, j.TraceParent, identity, j.Spec
		c.priority[i], c.maxAttempts[i] = int32(j.Priority), int32(max(j.MaxAttempts, 1))
		c.expires[i] = j.ExpiresIn.Milliseconds()
		c.retryOn[i] = joinOutcomes(j.RetryOn)
		c.lane[i], c.caps[i] = format.Lane(j.Caps)
		c.cacheKey[i] = j.CacheKey
	}
	return c, nil
}

func joinOutcomes(os []job.Outcome) string {
	if len(os) == 0 {
		return ""
	}
	parts := make([]string, len(os))
	for i, o := range os {
		parts[i] = string(o)
	}
	return strings.Join(parts, ",")
}
