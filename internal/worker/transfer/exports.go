package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/worker/live"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

// exports uploads a session's artifacts to the object store, each export under a lease of its own.
// An object at a fixed key lists the artifacts of the current export. So readers find an export
// without being notified.
type exports struct {
	store  *Store
	tenant string
	id     job.ID
	limits policy.Artifacts
	next   atomic.Int64
	sealed atomic.Int64 // the current export; 0: none
}

// Exports returns the exporter of a session's artifacts.
func (s *Store) Exports(tenant string, id job.ID, limits policy.Artifacts) live.Exporter {
	e := &exports{store: s, tenant: tenant, id: id, limits: limits}
	e.next.Store(int64(object.FirstExport))
	return e
}

// Begin implements live.Exporter.
func (e *exports) Begin() live.Exporting {
	return &exporting{e, e.store.Artifacts(e.owner(e.next.Add(1)-1), e.limits)}
}

func (e *exports) owner(export int64) Owner { return Owner{e.tenant, e.id, job.Lease(export)} }

type exporting struct {
	of   *exports
	kept *Artifacts
}

// Collect implements live.Exporting.
func (e *exporting) Collect(ctx context.Context, name string, size int64, r io.Reader) error {
	return e.kept.Collect(ctx, name, size, r)
}

// Seal implements live.Exporting. It removes the previous export. If that fails, the export is
// removed with the session's record.
func (e *exporting) Seal(ctx context.Context, refused []string) error {
	now := time.Now().UTC()
	out := &job.Export{Artifacts: e.kept.Stored().Artifacts, Feedback: refused, ExportedAt: &now}
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
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := retryPut(ctx, func() (object.Info, error) { return e.of.store.Objects.Put(ctx, key, bytes.NewReader(data)) }); err != nil {
		return fmt.Errorf("list the artifacts of a session: %w", err)
	}
	if before := e.of.sealed.Swap(int64(e.kept.owner.Lease)); before > 0 {
		e.of.store.Discard(ctx, e.of.owner(before))
	}
	return nil
}
