package httpapi_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// cpuTime returns the CPU time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// batches submits n batches of one job each and returns their ids.
func (f *fleet) batches(n int) (ids []string) {
	f.t.Helper()
	for range n {
		b := store.NewBatch{ID: job.NewID(), Tenant: "default"}
		j := store.NewJob{ID: job.NewID(), Tenant: "default", Pool: "nobody looks", Spec: []byte(python("x"))}
		if _, err := f.store.SubmitBatch(f.t.Context(), b, []store.NewJob{j}); err != nil {
			f.t.Fatal(err)
		}
		ids = append(ids, string(b.ID))
	}
	return ids
}
