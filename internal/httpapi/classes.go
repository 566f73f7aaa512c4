package httpapi

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/internal/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
)

// maxClasses bounds the classes of jobs that wait at once: each costs the
// scheduler a look.
const maxClasses = 256

// room refuses a class that a tenant has no jobs of yet if it has its number of them,
// or would take one of the last that there are: as with a pot, a tenant gets no more than
// is left, so that whatever one takes, another finds some. Where the
// database does not say what waits, there is room.
func (f *fleet) room(ctx context.Context, tenant, class string, most int) error {
	v, known, _ := f.now.Get(ctx)
	mine, knownToo, _ := f.classesOf(tenant).Get(ctx)
	if !known || !knownToo {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if mine[class] {
		return nil
	}
	if len(mine) >= most {
		return tooManyClasses("the tenant's jobs wait with %d different needs of a worker (isolation, memory above %s, requires, images that workers are reserved for) already, which is all that it may (classes of its ceiling); submit again when those are over",
			most, placement.Ordinary)
	}
	if left := maxClasses - len(v.classes); !v.classes[class] && (left < 1 || len(mine) >= left) {
		return tooManyClasses("of the %d different needs of a worker that jobs of all tenants may wait with, %d are taken, and this tenant has its share; submit again when some are over",
			maxClasses, len(v.classes))
	}
	v.classes[class], mine[class] = true, true
	return nil
}

func tooManyClasses(problem string, args ...any) error {
	return fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("classes", problem, args...))
}

// classesOf remembers for a moment of which classes a tenant has queued jobs, those aside
// that are a pool's and no more.
func (f *fleet) classesOf(tenant string) *recent.Value[map[string]bool] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.own[tenant]; r != nil {
		return r
	}
	if len(f.own) >= maxCounted {
		clear(f.own) // what was admitted in the last moment is not counted then
	}
	r := &recent.Value[map[string]bool]{Age: fleetAge, Read: func(ctx context.Context) (map[string]bool, error) {
		all, err := f.store.PoolsOf(ctx, tenant)
		own := map[string]bool{}
		for _, class := range all {
			if placement.ParseClass(class).Pool != class {
				own[class] = true
			}
		}
		return own, err
	}}
	f.own[tenant] = r
	return r
}
