package health

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// failing returns a runtime whose canary jobs fail n times at an isolation.
func failing(n map[policy.Isolation]int) *fake.Runtime {
	rt := fake.New(nil)
	rt.FailProve = func(i policy.Isolation) error {
		if n[i] == 0 {
			return nil
		}
		n[i]--
		return errors.New("no room for a sandbox")
	}
	return rt
}

func TestWhatCanaryJobsShow(t *testing.T) {
	t.Parallel()
	const ever = 1 << 30
	for name, c := range map[string]struct {
		fails   map[policy.Isolation]int
		works   []policy.Isolation
		missing int           // number of isolations that are not offered
		took    time.Duration // total
		states  int           // number of reported states
	}{
		"all":                   {nil, []policy.Isolation{policy.Cell, policy.Task}, 0, 0, 1},
		"a failure that passes": {map[policy.Isolation]int{policy.Task: 2}, []policy.Isolation{policy.Cell, policy.Task}, 0, 3 * time.Second, 1},
		"without cells":         {map[policy.Isolation]int{policy.Cell: ever}, []policy.Isolation{policy.Task}, 1, 3 * time.Second, 1},
		"task at last":          {map[policy.Isolation]int{policy.Task: 6}, []policy.Isolation{policy.Cell, policy.Task}, 0, (3 + 1 + 3 + 2) * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rt, began := failing(c.fails), time.Now()
				p := NewProof(rt, "python")
				if host, why := p.State(); host.Isolations != nil || why == "" {
					t.Errorf("before any has run: %v, %q", host.Isolations, why)
				}
				states := 0
				p.Run(t.Context(), func(policy.Host, string) { states++ })
				host, why := p.State()
				if why != "" || states != c.states || time.Since(began) != c.took {
					t.Errorf("%q after %v and %d states, want %v and %d", why, time.Since(began), states, c.took, c.states)
				}
				if d := cmp.Diff(c.works, host.Isolations); d != "" {
					t.Errorf("isolations (-want +got):\n%s", d)
				}
				if n := len(host.Missing) - len(rt.Host().Missing); n != c.missing {
					t.Errorf("missing: %q", host.Missing)
				}
				select {
				case <-p.Over():
				default:
					t.Error("it is not over")
				}
			})
		})
	}
}

// A runtime without canary jobs is trusted.
func TestNoProof(t *testing.T) {
	t.Parallel()
	word := fake.New(nil).Host().Isolations
	for name, p := range map[string]*Proof{
		"no image":  NewProof(fake.New(nil), ""),
		"no prover": NewProof(struct{ runtime.Runtime }{fake.New(nil)}, "python"),
	} {
		p.Run(t.Context(), func(policy.Host, string) { t.Errorf("%s: something has changed", name) })
		host, why := p.State()
		if d := cmp.Diff(word, host.Isolations); d != "" || why != "" {
			t.Errorf("%s: %q, isolations (-want +got):\n%s", name, why, d)
		}
		<-p.Over()
	}
}

// A host without isolation task offers nothing, and reports why, until its worker ends.
func TestNothingWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewProof(failing(map[policy.Isolation]int{policy.Task: 1 << 30}), "python")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		p.Run(ctx, func(host policy.Host, why string) {
			if host.Isolations != nil || !strings.Contains(why, "isolation task: canary job: no room for a sandbox") {
				t.Errorf("%v, %q", host.Isolations, why)
			}
		})
		if _, why := p.State(); why == "" {
			t.Error("it is proved")
		}
	})
}
