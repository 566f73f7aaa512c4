package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Batch is a client's batch.
type Batch struct {
	store.NewBatch                   // without ID, Total and traces
	Defaults       json.RawMessage   // the base of every job; may be empty
	Objects        []json.RawMessage // its jobs; an alternative to Lines
	Lines          io.Reader         // its jobs as NDJSON; only a few chunks are in memory
	Verify         func() error      // checks all of Lines after the last byte; optional
	Unrecorded     bool              // the client has a trace that is not recorded
}

// SubmitBatch accepts a batch completely or not at all, and returns its id. replayed reports that
// an earlier request with its key has created it. A batch of one chunk is one transaction. A larger
// batch is opened, filled while it is read, and visible only after it is sealed.
func (s *Service) SubmitBatch(ctx context.Context, b Batch) (id job.ID, replayed bool, err error) {
	if b.Labels, err = admit.HeldIn(ctx).Labels(b.Labels); err != nil {
		return "", false, err
	}
	if err := s.judge(ctx, b.NewBatch); err != nil {
		return "", false, err
	}
	n, trace := int64(0), b.begin(ctx)
	defer func() { trace.End(n, err) }()
	a, err := s.Admit.Open(ctx, b.Tenant, trace.Job, b.Defaults, b.LabelCaps)
	if err != nil {
		return "", false, err
	}
	room, err := s.roomForBatch(ctx, b.Tenant)
	if err != nil {
		return "", false, err
	}
	sink := &sink{store: s.Store, batch: b.NewBatch, room: room}
	n, err = b.admit(ctx, a, func(jobs []store.NewJob) error { return sink.take(ctx, jobs) })
	if errors.Is(err, errDuplicate) {
		return sink.known, true, nil
	}
	if err == nil {
		id, err = sink.seal(ctx, n)
	}
	if err != nil {
		s.drop(ctx, sink)
		return "", false, err
	}
	if id == b.ID {
		s.waiting.accepted(b.Tenant, n, 1)
	}
	s.Dispatcher.Wake()
	return id, id != b.ID, nil
}

// RetryBatch submits the unsuccessful jobs of a tenant's batch again as a new batch. b has the
// tenant and the key.
func (s *Service) RetryBatch(ctx context.Context, of job.ID, b Batch) (id job.ID, replayed bool, err error) {
	if err := s.CheckRoom(ctx, b.Tenant); err != nil {
		return "", false, err
	}
	if s.Callbacks != nil { // the new batch has the callback of the old one
		if err := s.Callbacks.Room(ctx, b.Tenant); err != nil {
			return "", false, err
		}
	}
	trace := b.begin(ctx)
	defer func() { trace.End(0, err) }()
	b.Trace = trace.Job
	if id, err = s.Store.RetryBatch(ctx, of, b.NewBatch); err != nil {
		return "", false, fmt.Errorf("retry batch %s: %w", of, err)
	}
	s.Dispatcher.Wake()
	return id, id != b.ID, nil
}

// begin assigns the batch's id and starts its trace.
func (b *Batch) begin(ctx context.Context) *telemetry.Batch {
	b.ID = job.NewID()
	about := telemetry.About{Batch: b.ID, Tenant: b.Tenant}
	_, t := telemetry.StartBatch(telemetry.Describe(ctx, about), about)
	if b.Unrecorded {
		t.Unwanted()
	}
	b.TraceParent = t.Parent()
	return t
}

// admit sends the batch's jobs to sink in chunks and returns their number.
func (b *Batch) admit(ctx context.Context, a *admit.Intake, sink admit.Sink) (n int64, err error) {
	if b.Lines != nil {
		n, err = a.Lines(ctx, b.Lines, sink)
	} else {
		n, err = a.Objects(ctx, b.Objects, sink)
	}
	if err == nil && n == 0 {
		err = job.Invalid("jobs", "a batch has at least one job")
	}
	if err == nil && b.Verify != nil {
		err = b.Verify()
	}
	return n, err
}

// judge checks the fields of a batch.
func (s *Service) judge(ctx context.Context, b store.NewBatch) error {
	if err := admit.CheckBatch(b); err != nil {
		return err
	}
	if d := b.Lease; d != 0 && (d < job.MinLease.D() || d > job.MaxLease.D()) {
		return job.Invalid("lease", "%v must be from %v to %v", d, job.MinLease.D(), job.MaxLease.D())
	}
	switch {
	case b.Callback == nil:
		return nil
	case s.Callbacks == nil:
		return job.Invalid("callback", "this fleet sends no callbacks")
	}
	return s.Callbacks.Check(ctx, b.Tenant, *b.Callback)
}

// dropTime limits the removal of a rejected batch.
const dropTime = 30 * time.Second

// drop removes the stored part of a rejected batch. After a crash, Reap does.
func (s *Service) drop(ctx context.Context, k *sink) {
	if !k.open {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	if err := s.Store.DropBatch(ctx, k.batch.ID); err != nil {
		s.Log.WarnContext(ctx, "open batch not dropped; the reaper will drop it", "batch", k.batch.ID, "error", err)
	}
}
