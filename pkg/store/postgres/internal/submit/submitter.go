package submit

import (
	"cmp"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/read"
)

// Config is how long unfinished submits and keys are kept; postgres.Config describes the fields.
type Config struct {
	OpenBatchTTL, KeyTTL, QueueLife time.Duration

	DropTime   time.Duration // how long a sweep removes dropped batches before it leaves the rest to the next, default 1s
	RetrySlice int64         // jobs that one statement copies, default 20,000
}

// Submitter accepts jobs and batches. All methods are safe for concurrent use.
type Submitter struct {
	db   *pg.DB
	read *read.Reader
	cfg  Config
	// unlimited are the ids of the tenants that had no limit of running jobs when they last
	// submitted one here.
	unlimited sync.Map
}

// New is over a database that is open.
func New(db *pg.DB, r *read.Reader, cfg Config) *Submitter {
	cfg.DropTime = cmp.Or(cfg.DropTime, time.Second)
	cfg.RetrySlice = cmp.Or(cfg.RetrySlice, retrySlice)
	return &Submitter{db: db, read: r, cfg: cfg}
}
