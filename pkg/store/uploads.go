package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Uploads accepts batches that come in chunks, one request each, over connections that may
// break. An upload is an open batch (see Submitter): nobody sees its jobs until it is sealed,
// and Reap drops it when no chunk has come for long. Of a tenant that has no such upload
// each is job.ErrNotFound.
type Uploads interface {
	// OpenUpload begins one; every job of it is laid over defaults. A key that names an
	// upload with the same hash yields that one, open or sealed, and existed.
	OpenUpload(ctx context.Context, b NewBatch, defaults json.RawMessage) (id job.ID, existed bool, err error)
	// Upload returns one.
	Upload(ctx context.Context, tenant string, id job.ID) (Upload, error)
	// AppendChunk accepts the jobs of the chunk that is due and its number in one
	// transaction. fresh is false, and nothing changes, if the same bytes came under that
	// number before. Other bytes, a chunk that is not due yet and an upload that is sealed
	// are job.ErrConflict.
	AppendChunk(ctx context.Context, tenant string, id job.ID, c Chunk, jobs []NewJob) (fresh bool, err error)
	// SealUpload makes a batch of it if it has exactly total jobs, else job.ErrConflict;
	// below zero: as many as there are. Sealing twice is the same as once.
	SealUpload(ctx context.Context, tenant string, id job.ID, total int64) error
	// DropUpload gives one up, and leaves what there is of it to Reap. It is
	// job.ErrConflict if it is sealed.
	DropUpload(ctx context.Context, tenant string, id job.ID) error
	// SigningKey returns the key of what the dispatchers of this fleet sign.
	SigningKey(ctx context.Context) ([]byte, error)
}

// Upload is how far a batch is that comes in chunks.
type Upload struct {
	ID          job.ID // and its batch's
	Name        string
	NextChunk   int64 // the one that is due
	Jobs        int64 // in the chunks before it
	Sealed      bool
	CreatedAt   time.Time
	DroppedAt   time.Time // when it will be, if no chunk comes
	Defaults    json.RawMessage
	LabelCaps   job.LabelCaps
	TraceParent string
}

// Chunk is which part of an upload some jobs are.
type Chunk struct {
	N      int64
	Digest [32]byte // sha256 of its bytes
}
