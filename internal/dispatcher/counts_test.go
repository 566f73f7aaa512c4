package dispatcher

import (
	"context"
	"testing"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// undescribed is a store that counts jobs and cannot describe the database.
type undescribed struct {
	reporterStore
	queued int64
	err    error
}

func (*undescribed) Stats(context.Context) (store.Stats, error)            { return store.Stats{}, nil }
func (*undescribed) Tenants(context.Context) ([]store.Tenant, error)       { return nil, nil }
func (*undescribed) Usage(context.Context) (map[string]fleet.Usage, error) { return nil, nil }
func (u *undescribed) Database(context.Context) (fleet.Database, error) {
	return fleet.Database{}, u.err
}
func (u *undescribed) Queue(context.Context) (q []store.QueueGroup, err error) {
	return []store.QueueGroup{{Tenant: "t", Queued: u.queued}}, nil
}

// TestCountsAfterAnError checks that tenants that were counted before another read failed are not lost until their next count.
func TestCountsAfterAnError(t *testing.T) {
	t.Parallel()
	s := &undescribed{queued: 3, err: job.ErrUnavailable}
	r := &reporter{store: s}
	if c, err := r.count(t.Context()); err == nil {
		t.Errorf("%+v of a database that fails", c)
	}
	s.err = nil
	if c, err := r.count(t.Context()); err != nil || len(c.Tenants) != 1 || c.Tenants[0].Queued != 3 {
		t.Errorf("%+v, %v, want the tenant of the first count", c, err)
	}
}
