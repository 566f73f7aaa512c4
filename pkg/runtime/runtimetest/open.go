package runtimetest

import (
	"context"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Plan plans the documented default policy for host, with the given isolation and the changes by
// edit, if any.
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

// CloseAtEnd closes r at the end of the test. It fails the test after a minute.
func CloseAtEnd(t testing.TB, r runtime.Runtime) {
	t.Helper()
	t.Cleanup(func() {
		// The test's context has already ended.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
