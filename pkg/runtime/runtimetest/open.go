package runtimetest

import (
	"context"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Plan makes the documented default policy, with isolation set, then changed by edit unless that is nil, concrete for host.
func Plan(t testing.TB, host policy.Host, isolation policy.Isolation, edit func(*policy.Policy)) *policy.Plan {
	t.Helper()
	p := policy.Default()
	p.Isolation = isolation
	if edit != nil {
		edit(&p)
	}
	plan, err := p.Plan(host)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// CloseAtEnd closes r when the test ends, which fails if that takes longer than a minute.
func CloseAtEnd(t testing.TB, r runtime.Runtime) {
	t.Helper()
	t.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
