package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Store is the store of accepted jobs.
type Store interface {
	sinkStore
	SubmitJob(ctx context.Context, j store.NewJob, key store.Idempotency, window int, rivals ...string) (job.ID, *store.Dispatch, error)
	RetryBatch(ctx context.Context, batch job.ID, as store.NewBatch) (job.ID, error)
	DropBatch(ctx context.Context, batch job.ID) error
	OpenUpload(ctx context.Context, b store.NewBatch, defaults json.RawMessage) (id job.ID, existed bool, err error)
	Upload(ctx context.Context, tenant string, id job.ID) (store.Upload, error)
	AppendChunk(ctx context.Context, tenant string, id job.ID, c store.Chunk, jobs []store.NewJob) (fresh bool, err error)
	SealUpload(ctx context.Context, tenant string, id job.ID, total int64) error
	// Waiting implements store.Scheduler. The empty tenant stands for all.
	Waiting(ctx context.Context, tenant string) (jobs, batches int64, err error)
}

// Dispatcher sends accepted jobs on; *dispatcher.Dispatcher implements it.
type Dispatcher interface {
	// Assign selects a worker that can run j at once, before j is submitted, and sets it in j. It
	// returns nil if there is none. The caller calls submitted with the result of SubmitJob; it sends
	// the job to the worker if there is a lease.
	Assign(j *store.NewJob) (submitted func(ctx context.Context, d *store.Dispatch, err error))
	// Window returns how many jobs of a class may be dispatched and not yet claimed.
	Window(class string) int
	// Dispatch publishes jobs that the store has dispatched. An error only costs time: unclaimed jobs
	// are published again.
	Dispatch(ctx context.Context, ds []store.Dispatch) error
	// Wake notifies the scheduler of new work.
	Wake()
}

// Fleet describes the connected workers.
type Fleet interface {
	// Lack returns why no connected worker can run the jobs of a class. It returns "" if one can, or
	// if the fleet is unknown.
	Lack(class string) string
	// Ahead returns the other classes with waiting jobs that some workers of a class would also run.
	// New jobs of the class must not overtake them.
	Ahead(class string) []string
}

// Callbacks validates the callbacks of batches; *callback.Sender implements it.
type Callbacks interface {
	// Check returns a *job.FieldError for an invalid callback.
	Check(ctx context.Context, tenant string, c job.Callback) error
	// Room returns job.ErrTooMany for a tenant that has as many open callbacks as it may.
	Room(ctx context.Context, tenant string) error
}

// Config holds the dependencies of a Service. All fields are required except as noted.
type Config struct {
	Store      Store
	Admit      *admit.Admitter
	Dispatcher Dispatcher
	Fleet      Fleet
	Callbacks  Callbacks // nil: this dispatcher sends none
	Queued     int64     // default quota of a tenant's active jobs; 0: 10 million
	Batches    int64     // default quota of a tenant's active batches; 0: 100,000
	Log        *slog.Logger

	QueuedOfAll int64 // limit of all tenants' active jobs; 0: 100 million
}

// Service accepts jobs. It is safe for concurrent use.
type Service struct {
	Config
	waiting waiting
}

// Quotas of a tenant whose ceiling has none.
const (
	DefaultJobs    = 10_000_000
	DefaultBatches = 100_000
)

// New returns a Service.
func New(c Config) *Service {
	c.Queued, c.Batches, c.QueuedOfAll = cmp.Or(c.Queued, DefaultJobs), cmp.Or(c.Batches, DefaultBatches), cmp.Or(c.QueuedOfAll, 100_000_000)
	return &Service{Config: c, waiting: waiting{store: c.Store}}
}
