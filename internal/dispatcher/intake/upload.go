package intake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// OpenUpload starts a batch in chunks and returns its id. replayed reports that an earlier request
// with its key has started it.
func (s *Service) OpenUpload(ctx context.Context, b Batch) (id job.ID, replayed bool, err error) {
	if err := s.judge(ctx, b.NewBatch); err != nil {
		return "", false, err
	}
	trace := b.begin(ctx)
	defer func() { trace.End(0, err) }()
	if _, err := s.Admit.Open(ctx, b.Tenant, trace.Job, b.Defaults, b.LabelCaps); err != nil {
		return "", false, err
	}
	if err := s.CheckRoom(ctx, b.Tenant); err != nil {
		return "", false, err
	}
	if id, replayed, err = s.Store.OpenUpload(ctx, b.NewBatch, b.Defaults); err != nil {
		return "", false, fmt.Errorf("open upload: %w", err)
	}
	if !replayed {
		s.waiting.accepted(b.Tenant, 0, 1)
	}
	return id, replayed, nil
}

// Chunk accepts all lines of one chunk or none, and returns the upload's state. A repeated chunk
// with the same bytes changes nothing.
func (s *Service) Chunk(ctx context.Context, tenant string, id job.ID, n int64, lines []byte) (u store.Upload, err error) {
	if u, err = s.Store.Upload(ctx, tenant, id); err != nil {
		return u, fmt.Errorf("read upload: %w", err)
	}
	if err := CheckChunk(n); err != nil {
		return u, err
	}
	var jobs []store.NewJob
	if n == u.NextChunk && !u.Sealed {
		if jobs, err = s.admitChunk(ctx, tenant, u, lines); err != nil {
			return u, err
		}
	}
	fresh, err := s.Store.AppendChunk(ctx, tenant, id, store.Chunk{N: n, Digest: sha256.Sum256(lines)}, jobs)
	if err != nil {
		return u, fmt.Errorf("append chunk: %w", err)
	}
	if fresh {
		s.waiting.accepted(tenant, int64(len(jobs)), 0)
	}
	if u, err = s.Store.Upload(ctx, tenant, id); err != nil {
		return u, fmt.Errorf("read upload: %w", err)
	}
	return u, nil
}

// CheckChunk returns job.ErrTooMany for a chunk number above the limit of an upload.
func CheckChunk(n int64) error {
	if n < job.MaxChunks {
		return nil
	}
	return fmt.Errorf("%w: %w", job.ErrTooMany,
		job.Invalid("chunks", "chunk %d is one more than the %d that an upload may have; send more jobs in each, or another upload", n, job.MaxChunks))
}

// errManyLines is the error for a chunk with too many jobs for one transaction.
var errManyLines = fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("body", "has more than %d jobs; send them as several chunks", job.MaxChunkJobs))

// admitChunk validates the jobs of the next chunk. Errors name the chunk's lines.
func (s *Service) admitChunk(ctx context.Context, tenant string, u store.Upload, lines []byte) (jobs []store.NewJob, err error) {
	room, err := s.roomForJobs(ctx, tenant)
	if err != nil {
		return nil, err
	}
	about := telemetry.About{Batch: u.ID, Tenant: tenant}
	_, trace := telemetry.StartBatch(telemetry.Describe(ctx, about), about)
	if u.TraceParent == "" { // the client has no trace
		trace.Unwanted()
	}
	defer func() { trace.End(int64(len(jobs)), err) }()
	a, err := s.Admit.Open(ctx, tenant, trace.Job, u.Defaults, u.LabelCaps)
	if err != nil {
		return nil, err
	}
	_, err = a.Lines(ctx, bytes.NewReader(lines), func(some []store.NewJob) error {
		if jobs = append(jobs, some...); len(jobs) > job.MaxChunkJobs {
			return errManyLines
		}
		if int64(len(jobs)) > room.left {
			return room.full
		}
		return nil
	})
	if err == nil && len(jobs) == 0 {
		err = job.Invalid("body", "has no line; a chunk has at least one job")
	}
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// SealUpload makes the upload a batch. If want is not nil, the batch must have this many jobs.
func (s *Service) SealUpload(ctx context.Context, tenant string, id job.ID, want *int64) error {
	total := int64(-1)
	if want != nil {
		total = *want
	}
	u, err := s.Store.Upload(ctx, tenant, id)
	if err != nil {
		return fmt.Errorf("read upload: %w", err)
	}
	if u.Jobs == 0 {
		return job.Invalid("jobs", "a batch has at least one job, and no chunk has come")
	}
	if err := s.Store.SealUpload(ctx, tenant, id, total); err != nil {
		if errors.Is(err, job.ErrConflict) && total >= 0 && total != u.Jobs {
			err = fmt.Errorf("%w; the upload is not sealed: request its next chunk and send the missing ones", err)
		}
		return fmt.Errorf("seal upload: %w", err)
	}
	s.Dispatcher.Wake()
	return nil
}
