package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// queuedClasses is a store with the classes of waiting jobs, by tenant.
type queuedClasses struct {
	store.Store
	of   map[string][]string
	down bool
}

func (q *queuedClasses) Workers(context.Context, time.Duration) ([]store.Worker, error) {
	return nil, q.err()
}

func (q *queuedClasses) Spoken(context.Context) (int, error) { return 0, q.err() }

func (q *queuedClasses) err() error {
	if q.down {
		return job.ErrUnavailable
	}
	return nil
}

func (q *queuedClasses) Pools(context.Context) (all []string, err error) {
	for _, of := range q.of {
		all = append(all, of...)
	}
	return all, q.err()
}

func (q *queuedClasses) PoolsOf(_ context.Context, tenant string) ([]string, error) {
	return q.of[tenant], q.err()
}

// TestClassesOfOneTenant checks that one tenant cannot take more classes than its limit, and that other tenants can still
// take some.
func TestClassesOfOneTenant(t *testing.T) {
	t.Parallel()
	f := New(Config{}, &queuedClasses{of: map[string][]string{"mean": {"", "gpu", "?label.x=0"}}})
	class := func(i int) string { return fmt.Sprintf("?label.x=%d", i) }
	for i := range admit.MaxClasses {
		if err := f.Room(t.Context(), "mean", class(i), admit.MaxClasses); err != nil {
			t.Fatalf("the tenant's class %d: %v", i, err)
		}
	}
	err := f.Room(t.Context(), "mean", class(admit.MaxClasses), admit.MaxClasses)
	p := api.NewProblem(err)
	if p.Status != 429 || !strings.Contains(p.Detail, "16 different needs") || len(p.Errors) != 1 || p.Errors[0].Field != "classes" {
		t.Errorf("one more: %+v", p)
	}
	if err := f.Room(t.Context(), "mean", class(3), admit.MaxClasses); err != nil {
		t.Errorf("one that it has: %v", err)
	}
	if err := f.Room(t.Context(), "mean", class(99), admit.MaxClasses+1); err != nil {
		t.Errorf("with a higher ceiling: %v", err)
	}
	if err := f.Room(t.Context(), "kind", "?isolation=gvisor", admit.MaxClasses); err != nil {
		t.Errorf("the other tenant: %v", err)
	}
}

// TestClassesOfManyTenants checks that the last classes go to tenants without any.
func TestClassesOfManyTenants(t *testing.T) {
	t.Parallel()
	f := New(Config{}, &queuedClasses{})
	admitted := map[string]int{}
	for i := range 100 * admit.MaxClasses {
		tenant := fmt.Sprintf("t%d", i%40)
		if f.Room(t.Context(), tenant, fmt.Sprintf("?label.x=%d", i), admit.MaxClasses) == nil {
			admitted[tenant]++
		}
	}
	all := 0
	for tenant, n := range admitted {
		if all += n; n > admit.MaxClasses {
			t.Errorf("%s got %d", tenant, n)
		}
	}
	if all > maxClasses || all < maxClasses/2 {
		t.Errorf("%d in all", all)
	}
	if err := f.Room(t.Context(), "late", "?label.late=1", admit.MaxClasses); err != nil {
		t.Errorf("who has none: %v", err)
	}
	if err := f.Room(t.Context(), "late", "?label.x=1", admit.MaxClasses); err != nil {
		t.Errorf("a class that is there already: %v", err)
	}
}

// TestClassesUnknown checks that no class is rejected while the store is unavailable.
func TestClassesUnknown(t *testing.T) {
	t.Parallel()
	f := New(Config{}, &queuedClasses{down: true})
	if err := f.Room(t.Context(), "t", "?label.x=1", 0); err != nil || errors.Is(err, job.ErrTooMany) {
		t.Error(err)
	}
	if f.Lack("") != "" || f.Ahead("") != nil || f.Pool(t.Context(), "p") != nil {
		t.Error("something is said of a fleet that nothing is known of")
	}
}
