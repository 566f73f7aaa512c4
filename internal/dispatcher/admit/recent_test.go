package admit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/pkg/store"
)

// counted returns the number of its calls as the weight.
type counted struct {
	asked int
	err   error
}

func (c *counted) Tenant(_ context.Context, name string) (store.Tenant, error) {
	c.asked++
	return store.Tenant{Name: name, Weight: float64(c.asked)}, c.err
}

func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &counted{err: errors.New("away")}
		recent := admit.Recent(source)
		weight := func(name string) float64 {
			got, err := recent.Tenant(t.Context(), name)
			if err == nil && got.Name != name {
				t.Errorf("asked for %s, got %s", name, got.Name)
			}
			return got.Weight
		}
		weight("a")
		source.err = nil
		if got := weight("a"); got != 2 {
			t.Errorf("a failure is remembered: %v", got)
		}
		if got := weight("b"); got != 3 {
			t.Errorf("another tenant: %v", got)
		}
		time.Sleep(900 * time.Millisecond)
		if got := weight("a"); got != 2 {
			t.Errorf("asked again after 0.9 s: %v", got)
		}
		time.Sleep(200 * time.Millisecond)
		if got := weight("a"); got != 4 {
			t.Errorf("not asked again after 1.1 s: %v", got)
		}
	})
}
