package submit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// OpenUpload implements store.Uploads.
func (s *Submitter) OpenUpload(ctx context.Context, b store.NewBatch, defaults json.RawMessage) (id job.ID, existed bool, err error) {
	first, text := int64(0), (*string)(nil)
	if len(defaults) > 0 {
		d := string(defaults)
		text = &d
	}
	return s.open(ctx, b, &first, text)
}

const readUpload = `
SELECT b.name, b.next_chunk, b.appended, b.sealed_at IS NOT NULL, b.created_at, b.appended_at + $3 * interval '1 millisecond',
	u.defaults, b.label_caps, b.traceparent
FROM batches b JOIN uploads u ON u.batch_id = b.id WHERE b.id = $1 AND b.tenant_id = $2 AND b.dropped_at IS NULL`

// Upload implements store.Uploads.
func (s *Submitter) Upload(ctx context.Context, tenant string, id job.ID) (u store.Upload, err error) {
	err = s.db.Do(ctx, "read upload", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		u, err = s.upload(ctx, t, id)
		return err
	})
	return u, err
}

func (s *Submitter) upload(ctx context.Context, tenant int32, id job.ID) (store.Upload, error) {
	u := store.Upload{ID: id}
	var defaults *string
	var caps []byte
	err := s.db.Pool.QueryRow(ctx, readUpload, pg.UUID(id), tenant, s.cfg.OpenBatchTTL.Milliseconds()).Scan(
		&u.Name, &u.NextChunk, &u.Jobs, &u.Sealed, &u.CreatedAt, &u.DroppedAt, &defaults, &caps, &u.TraceParent)
	if errors.Is(err, pgx.ErrNoRows) {
		return u, fmt.Errorf("%w: upload %s", job.ErrNotFound, id)
	}
	if err != nil {
		return u, err
	}
	if defaults != nil {
		u.Defaults = json.RawMessage(*defaults)
	}
	if len(caps) > 0 {
		err = json.Unmarshal(caps, &u.LabelCaps)
	}
	return u, err
}

// appendChunk is appendJobs for the next chunk, whose number is in the batch's row.
var appendChunk = `
WITH batch AS (
	UPDATE batches SET appended = appended + $2, appended_at = now(), next_chunk = next_chunk + 1,
		first_job = least(first_job, $18), last_job = greatest(last_job, $19), spanned = spanned + $2, expiring = expiring OR $20
	WHERE id = $1 AND next_chunk = $3 AND tenant_id = $5 AND sealed_at IS NULL AND dropped_at IS NULL RETURNING id, tenant_id),
chunk AS (INSERT INTO upload_chunks (batch_id, n, digest, jobs) SELECT id, $3::bigint, $4, $2::bigint FROM batch),` +
	insertJobs("batch", "batch.tenant_id", 6, true) + `
SELECT EXISTS (SELECT FROM batch)`

// AppendChunk implements store.Uploads.
func (s *Submitter) AppendChunk(ctx context.Context, tenant string, id job.ID, c store.Chunk, jobs []store.NewJob) (fresh bool, err error) {
	cols, err := columnsOf(jobs)
	if err != nil {
		return false, pg.Translate("append chunk", err)
	}
	err = s.db.Do(ctx, "append chunk", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		args := slices.Concat([]any{pg.UUID(id), int64(len(jobs)), c.N, c.Digest[:], t}, cols.args(), cols.span(), []any{cols.expiring()})
		if err := s.db.Pool.QueryRow(ctx, appendChunk, args...).Scan(&fresh); err != nil || fresh {
			s.db.News.Queued(cols.queues(t)...)
			return err
		}
		return s.knownChunk(ctx, t, id, c)
	})
	return fresh, err
}

// knownChunk returns nil if the chunk came before with the same bytes, and else the reason to refuse it.
func (s *Submitter) knownChunk(ctx context.Context, tenant int32, id job.ID, c store.Chunk) error {
	u, err := s.upload(ctx, tenant, id)
	if err != nil {
		return err
	}
	var digest []byte
	err = s.db.Pool.QueryRow(ctx, `SELECT digest FROM upload_chunks WHERE batch_id = $1 AND n = $2`, pg.UUID(id), c.N).Scan(&digest)
	switch {
	case err == nil && string(digest) == string(c.Digest[:]):
		return nil
	case err == nil:
		return fmt.Errorf("%w: chunk %d of upload %s came with other bytes before", job.ErrConflict, c.N, id)
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	case u.Sealed:
		return fmt.Errorf("%w: upload %s is sealed, with %d chunks", job.ErrConflict, id, u.NextChunk)
	}
	return fmt.Errorf("%w: the next chunk of upload %s is %d, not %d", job.ErrConflict, id, u.NextChunk, c.N)
}

// SealUpload implements store.Uploads.
func (s *Submitter) SealUpload(ctx context.Context, tenant string, id job.ID, total int64) error {
	u, err := s.Upload(ctx, tenant, id)
	if err != nil {
		return err
	}
	if total < 0 {
		total = u.Jobs
	}
	return s.SealBatch(ctx, id, total)
}

// DropUpload implements store.Uploads.
func (s *Submitter) DropUpload(ctx context.Context, tenant string, id job.ID) error {
	if _, err := s.Upload(ctx, tenant, id); err != nil {
		return err
	}
	return s.db.Do(ctx, "drop upload", func(ctx context.Context) error {
		if err := s.abandon(ctx, id); err != nil {
			return err
		}
		var sealed bool
		err := s.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM batches WHERE id = $1 AND sealed_at IS NOT NULL)`, pg.UUID(id)).Scan(&sealed)
		if err == nil && sealed {
			err = fmt.Errorf("%w: upload %s is sealed; cancel its batch instead", job.ErrConflict, id)
		}
		return err
	})
}

// SigningKey implements store.Uploads.
func (s *Submitter) SigningKey(ctx context.Context) (key []byte, err error) {
	made := make([]byte, 32)
	if _, err := rand.Read(made); err != nil {
		return nil, err
	}
	err = s.db.Do(ctx, "signing key", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `UPDATE fleet SET signing_key = coalesce(signing_key, $1) RETURNING signing_key`, made).Scan(&key)
	})
	return key, err
}
