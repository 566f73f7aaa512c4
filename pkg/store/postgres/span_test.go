package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestSpan: a job that waits makes others wait behind it, on whichever day it was
// submitted; days that are over are not looked at.
func TestSpan(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	forget := func() { s.spans.last.Store(nil) }
	submit := func(id job.ID, window int) bool {
		t.Helper()
		forget()
		_, d, err := s.SubmitJob(ctx, store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, window)
		if err != nil {
			t.Fatal(err)
		}
		return d != nil
	}
	over := func(id job.ID) {
		t.Helper()
		if _, err := s.Cancel(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	opened := func() int {
		t.Helper()
		forget()
		live := s.unfinished(ctx)
		plan := explain(t, s, submitJob, fmt.Sprintf(`1, '', '', '%s', 1, 'p', 0, 1, '', 0, '', '', '{}', 0, NULL, NULL, '%s', '%s', '', 0, NULL, '{p}'`, job.NewID(), live.first, live.last))
		return strings.Count(plan, "_pool_tenant_id_batch_id_priority_lane_id_idx")
	}

	old := time.Now().UTC().AddDate(0, 0, -40).Truncate(24 * time.Hour)
	if _, err := s.pool.Exec(ctx, `SELECT assay_partitions($1::date, 30)`, old); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	if live := s.unfinished(gone); live != everywhere() {
		t.Errorf("a search that failed found %v", live)
	}
	if n := opened(); n == 0 || n > 3 {
		t.Errorf("with nothing to do, a submit opens %d partitions", n)
	}
	for _, c := range []struct {
		name string
		id   job.ID
	}{
		{"of a day long ago", job.FirstIDAt(old.Add(50 * time.Hour))},
		{"without a partition", job.FirstIDAt(old.AddDate(-1, 0, 0))},
		{"of the future", job.FirstIDAt(time.Now().AddDate(1, 0, 0))},
		{"of yesterday", job.FirstIDAt(time.Now().UTC().Truncate(24 * time.Hour).Add(-2 * time.Hour))},
	} {
		submit(c.id, 0)
		if id := job.NewID(); submit(id, 100) {
			t.Errorf("a job %s was overtaken", c.name)
		} else {
			over(id)
		}
		over(c.id)
		id := job.NewID()
		if !submit(id, 100) {
			t.Errorf("a job %s is over, and others wait for it", c.name)
		}
		over(id)
	}
	if n := opened(); n == 0 || n > 3 {
		t.Errorf("with everything done, a submit opens %d partitions", n)
	}
}
