package lifecycle

import (
	"cmp"
	"time"

	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/read"
)

// Config is how long jobs wait and when they are given up; postgres.Config describes the fields.
type Config struct {
	InfraBudget, PoisonAfter                        int
	PoisonWait, RetryDelay, TakeBackAfter, AgeEvery time.Duration
	QueueLife                                       time.Duration

	CancelTime time.Duration // how long a cancel and each step of a sweep take before they leave the rest to the next, default 1s
}

// Transitions are the moves of jobs from state to state. All methods are safe for
// concurrent use.
type Transitions struct {
	db    *pg.DB
	read  *read.Reader
	cfg   Config
	watch watch

	looking chan struct{} // holds the look that is under way, which alone uses rounds and queues
	rounds  rounds
	queues  *queues
}

// New is over a database that is open.
func New(db *pg.DB, r *read.Reader, cfg Config) *Transitions {
	cfg.CancelTime = cmp.Or(cfg.CancelTime, time.Second)
	return &Transitions{db: db, read: r, cfg: cfg, looking: make(chan struct{}, 1), queues: newQueues()}
}
