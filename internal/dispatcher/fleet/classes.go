package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
)

const (
	// maxClasses bounds the classes of waiting jobs of all tenants. Each adds to the work of a scheduler pass.
	maxClasses = 256
	// maxTenants bounds the tenants with cached classes.
	maxTenants = 1000
)

// queued caches the classes of waiting jobs.
type queued struct {
	store Store
	all   recent.Value[*waiting]

	mu  sync.Mutex // guards own and the cached values
	own map[string]*recent.Value[map[string]bool]
}

// waiting is the classes of waiting jobs at the last read of the store.
type waiting struct {
	classes map[string]bool     // including the ones admitted since
	rivals  map[string][]string // results of Ahead, by class
}

func newQueued(s Store) queued {
	return queued{store: s, own: map[string]*recent.Value[map[string]bool]{}, all: recent.Value[*waiting]{Age: freshFor, Read: func(ctx context.Context) (*waiting, error) {
		classes, err := s.Pools(ctx)
		return &waiting{setOf(classes), map[string][]string{}}, err
	}}}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Ahead returns the other classes with waiting jobs that a worker of this class would also run. Jobs of this class
// must not overtake them. The answer may be as old as freshFor.
func (f *Fleet) Ahead(class string) []string {
	v, known, _ := f.classes.all.Get(context.Background())
	r := f.now()
	if !known || r == nil {
		return nil
	}
	f.classes.mu.Lock()
	defer f.classes.mu.Unlock()
	if rivals, known := v.rivals[class]; known {
		return rivals
	}
	need, rivals := placement.ParseClass(class), []string(nil)
	for other := range v.classes {
		n := placement.ParseClass(other)
		if other != class && slices.ContainsFunc(r.workers, func(w Worker) bool { return w.Takes(need) && w.Takes(n) }) {
			rivals = append(rivals, other)
		}
	}
	v.rivals[class] = rivals
	return rivals
}

// Room rejects a class that the tenant has no jobs of yet, with job.ErrTooMany, in two cases: the tenant has most
// classes, or the class is new and the tenant has as many classes as the fleet has left. So one tenant cannot take
// all classes. If the store does not answer, there is room.
func (f *Fleet) Room(ctx context.Context, tenant, class string, most int) error {
	v, known, _ := f.classes.all.Get(ctx)
	mine, knownToo, _ := f.classesOf(tenant).Get(ctx)
	if !known || !knownToo {
		return nil
	}
	f.classes.mu.Lock()
	defer f.classes.mu.Unlock()
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

// classesOf returns the cached value of a tenant's classes with queued jobs. Classes that only name a pool do not
// count.
func (f *Fleet) classesOf(tenant string) *recent.Value[map[string]bool] {
	f.classes.mu.Lock()
	defer f.classes.mu.Unlock()
	if r := f.classes.own[tenant]; r != nil {
		return r
	}
	if len(f.classes.own) >= maxTenants {
		clear(f.classes.own) // forgets the classes admitted since the last read
	}
	r := &recent.Value[map[string]bool]{Age: freshFor, Read: func(ctx context.Context) (map[string]bool, error) {
		all, err := f.store.PoolsOf(ctx, tenant)
		own := map[string]bool{}
		for _, class := range all {
			if placement.ParseClass(class).Pool != class {
				own[class] = true
			}
		}
		return own, err
	}}
	f.classes.own[tenant] = r
	return r
}
