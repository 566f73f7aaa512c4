package intake

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/assay-run/assay/internal/admit"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Store is where accepted jobs are kept.
type Store interface {
	store.Submitter
	store.Uploads
	// Waiting is store.Scheduler's.
	Waiting(ctx context.Context, tenant string) (jobs, batches int64, err error)
}

// Dispatcher hands on what was accepted; *dispatcher.Dispatcher does.
type Dispatcher interface {
	// Assign names in j a worker that may run it at once, before it is submitted;
	// nil: there is none. submitted is to be told what SubmitJob returned: it
	// hands the job over if there is a lease.
	Assign(j *store.NewJob) (submitted func(ctx context.Context, d *store.Dispatch, err error))
	// Window is how many jobs of a class may be dispatched and not claimed.
	Window(class string) int
	// Dispatch publishes jobs that the store has just dispatched. An error
	// costs time, never the job: unclaimed jobs are published again.
	Dispatch(ctx context.Context, ds []store.Dispatch) error
	// Wake tells the scheduler that there is something to do.
	Wake()
}

// Fleet knows the connected workers.
type Fleet interface {
	// Lack says why no connected worker can run the jobs of a class; "" if one can, or
	// nothing is known.
	Lack(class string) string
	// Ahead returns the other classes of which jobs wait that some of the workers for a
	// class would run, too: nothing of it may pass them.
	Ahead(class string) []string
}

// Callbacks judges whom a batch wants told; *callback.Sender does.
type Callbacks interface {
	// Check returns a *job.FieldError for a callback that cannot be.
	Check(ctx context.Context, tenant string, c job.Callback) error
}

// Config is what a Service stands on. Every field is needed unless it says otherwise.
type Config struct {
	Store      Store
	Admit      *admit.Admitter
	Dispatcher Dispatcher
	Fleet      Fleet
	Callbacks  Callbacks // nil: none are sent from here
	Queued     int64     // jobs of a tenant that are not over, unless its ceiling says so; 0: 10 million
	Batches    int64     // the same of its batches; 0: 100,000
	Log        *slog.Logger
}

// Service takes jobs in. It is safe for concurrent use.
type Service struct {
	Config
	waiting waiting
}

// New returns a Service.
func New(c Config) *Service {
	c.Queued, c.Batches = cmp.Or(c.Queued, 10_000_000), cmp.Or(c.Batches, 100_000)
	return &Service{Config: c, waiting: waiting{store: c.Store}}
}
