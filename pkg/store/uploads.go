package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Uploads accepts batches that arrive in chunks, one request each, over unreliable connections. An upload is an open
// batch (see Submitter): its jobs are invisible until it is sealed, and Reap drops it after a long time without a
// chunk. Each method returns job.ErrNotFound if the tenant has no such upload.
type Uploads interface {
	// OpenUpload begins one; every job of it is laid over defaults. A key that names an
	// upload with the same hash yields that one, open or sealed, and existed.
	OpenUpload(ctx context.Context, b NewBatch, defaults json.RawMessage) (id job.ID, existed bool, err error)
	// Upload returns one.
	Upload(ctx context.Context, tenant string, id job.ID) (Upload, error)
	// AppendChunk accepts the jobs of the next chunk and its number in one transaction. If the same bytes came under
	// that number before, fresh is false and nothing changes. It returns job.ErrConflict for other bytes under that
	// number, a chunk out of order or a sealed upload.
	AppendChunk(ctx context.Context, tenant string, id job.ID, c Chunk, jobs []NewJob) (fresh bool, err error)
	// SealUpload makes a batch of it if it has exactly total jobs, else job.ErrConflict;
	// below zero: as many as there are. Sealing twice is the same as once.
	SealUpload(ctx context.Context, tenant string, id job.ID, total int64) error
	// DropUpload gives an upload up; Reap removes its rows. It returns job.ErrConflict if it is sealed.
	DropUpload(ctx context.Context, tenant string, id job.ID) error
	// SigningKey returns the key with which the dispatchers of this fleet sign.
	SigningKey(ctx context.Context) ([]byte, error)
}

// Upload is how far a batch is that comes in chunks.
type Upload struct {
	ID          job.ID // and its batch's
	Name        string
	NextChunk   int64 // the next chunk's number
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
