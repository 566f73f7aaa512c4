package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/session/live"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// exports takes what a session leaves behind to the object store, each time under a lease
// of its own. A list at a place that is always the same says which of them counts, so
// nobody has to hear of an export for it to be there.
type exports struct {
	*Worker
	tenant string
	id     job.ID
	limits policy.Artifacts
	next   atomic.Int64
	sealed atomic.Int64 // the export that counts; 0: none
}

func (w *Worker) exports(tenant string, id job.ID, p policy.Artifacts) live.Exporter {
	e := &exports{Worker: w, tenant: tenant, id: id, limits: p}
	e.next.Store(int64(object.FirstExport))
	return e
}

// Begin implements live.Exporter.
func (e *exports) Begin() live.Exporting {
	l := &lease{LeaseRef: store.LeaseRef{Job: e.id, Lease: job.Lease(e.next.Add(1) - 1)}}
	return &exporting{e, &artifacts{objects: e.Objects, metrics: e.metrics, tenant: e.tenant, lease: l, limits: e.limits}}
}

type exporting struct {
	of   *exports
	kept *artifacts
}

// Collect implements live.Exporting.
func (e *exporting) Collect(ctx context.Context, name string, size int64, r io.Reader) error {
	return e.kept.collect(ctx, name, size, r)
}

// Seal implements live.Exporting. The export before is removed: what fails there is
// removed with the session's record.
func (e *exporting) Seal(ctx context.Context, refused []string) error {
	now := time.Now().UTC()
	out := &job.Export{Artifacts: e.kept.list, Feedback: refused, ExportedAt: &now}
	if out.Artifacts == nil {
		out.Artifacts = []job.Artifact{}
	}
	key, err := object.ExportKey(e.of.tenant, e.of.id)
	if err != nil {
		return err
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if _, err := retryPut(ctx, func() (object.Info, error) { return e.of.Objects.Put(ctx, key, bytes.NewReader(data)) }); err != nil {
		return fmt.Errorf("list the artifacts of a session: %w", err)
	}
	if before := e.of.sealed.Swap(int64(e.kept.lease.Lease)); before > 0 {
		e.of.discard(ctx, e.of.tenant, &lease{LeaseRef: store.LeaseRef{Job: e.of.id, Lease: job.Lease(before)}})
	}
	return nil
}
