package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/assay-run/assay/internal/recent"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
)

const (
	// maxClasses bounds the classes of jobs that wait at once: each costs the
	// scheduler a look.
	maxClasses = 256
	// maxTenants bounds the tenants whose classes are remembered.
	maxTenants = 1000
)

// queued remembers for a moment which classes of jobs wait.
type queued struct {
	store Store
	all   recent.Value[*waiting]

	mu  sync.Mutex // of what is in own and in what is read
	own map[string]*recent.Value[map[string]bool]
}

// waiting is the classes that waited when the store was read.
type waiting struct {
	classes map[string]bool     // and those that were admitted since
	rivals  map[string][]string // what was worked out since
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

// Ahead returns the other classes of which jobs wait that some of the workers for a class
// would run, too: nothing of it may pass them. It is at most as old as the list.
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

// Room refuses a class that a tenant has no jobs of yet if it has its number of them,
// or would take one of the last that there are: as with a pot, a tenant gets no more than
// is left, so that whatever one takes, another finds some. Where the
// database does not say what waits, there is room.
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

// classesOf remembers for a moment of which classes a tenant has queued jobs, those aside
// that are a pool's and no more.
func (f *Fleet) classesOf(tenant string) *recent.Value[map[string]bool] {
	f.classes.mu.Lock()
	defer f.classes.mu.Unlock()
	if r := f.classes.own[tenant]; r != nil {
		return r
	}
	if len(f.classes.own) >= maxTenants {
		clear(f.classes.own) // what was admitted in the last moment is not counted then
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
