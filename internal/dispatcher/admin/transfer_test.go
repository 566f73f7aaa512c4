package admin_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/transfer"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// peak counts bytes, and measures the heap every few MiB.
type peak struct {
	io.Writer
	bytes, measured int64
	heap            atomic.Uint64
}

func (p *peak) Write(b []byte) (int, error) {
	if p.bytes += int64(len(b)); p.bytes-p.measured > 10<<20 {
		p.measured = p.bytes
		p.heap.Store(max(p.heap.Load(), liveHeap()))
	}
	return p.Writer.Write(b)
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMoveManyJobs moves 50,000 jobs from one fleet straight into another, in bounded memory.
func TestMoveManyJobs(t *testing.T) {
	const total, each = 50_000, 5_000
	from, to := open(t, testenv.Postgres(t), t.TempDir()), open(t, testenv.Postgres(t), t.TempDir())
	spec := []byte(`{"text":"` + strings.Repeat("x", 2000) + `"}`)
	var last job.ID
	for range total / each {
		last = job.NewID()
		jobs := make([]store.NewJob, each)
		for i := range jobs {
			jobs[i] = store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: spec}
		}
		_, err := from.store.SubmitBatch(t.Context(), store.NewBatch{ID: last, Tenant: "t"}, jobs)
		from.must(err)
		for done := false; !done; done, err = from.store.BatchDone(t.Context(), "t", last) {
			_, err = from.store.CancelBatch(t.Context(), last)
			from.must(err)
		}
		from.must(err)
	}

	before := liveHeap()
	r, w := io.Pipe()
	out := &peak{Writer: w}
	go func() {
		err := from.admin.ExportTenant(t.Context(), admin.Actor{Name: "op"}, admin.Transfer{Tenant: "t"}, func() io.Writer { return out })
		_ = w.CloseWithError(err)
	}()
	start := time.Now()
	done, err := to.admin.ImportTenant(t.Context(), admin.Actor{Name: "op"}, admin.Transfer{Tenant: "t"}, r)
	to.must(err)
	if text := string(done.Detail); done.Outcome != store.ActionDone || !strings.Contains(text, fmt.Sprintf(`"jobs": %d`, total)) && !strings.Contains(text, fmt.Sprintf(`"jobs":%d`, total)) {
		t.Errorf("imported %s", text)
	}
	grown := int64(out.heap.Load()) - int64(before)
	t.Logf("%d MiB in %v; the heap grew by %d MiB", out.bytes>>20, time.Since(start).Round(time.Millisecond), grown>>20)
	if out.bytes < 100<<20 || grown > 48<<20 {
		t.Errorf("%d MiB moved, and the heap grew by %d MiB", out.bytes>>20, grown>>20)
	}
	if b, err := to.store.Batch(t.Context(), "t", last); err != nil || b.Outcomes[job.OutcomeCanceled] != each {
		t.Errorf("the last batch: %+v, %v", b, err)
	}
}

// TestSecretsAfterTheCheckFailAnExport checks that a secret that is set while an export without a key begins fails it.
func TestSecretsAfterTheCheckFailAnExport(t *testing.T) {
	f := open(t, testenv.Postgres(t), t.TempDir())
	id := job.NewID()
	_, err := f.store.SubmitBatch(t.Context(), store.NewBatch{ID: id, Tenant: "t"}, nil)
	f.must(err)
	var file strings.Builder
	err = f.admin.ExportTenant(t.Context(), admin.Actor{Name: "op"}, admin.Transfer{Tenant: "t"}, func() io.Writer {
		f.must(f.store.PutSecret(t.Context(), nil, store.SecretRef{Tenant: "t", Name: "S"}, []byte("sealed")))
		return &file
	})
	f.must(err)
	if _, _, err := transfer.Verify(strings.NewReader(file.String())); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "has secrets") {
		t.Errorf("a file without a secret: %v", err)
	}
}
