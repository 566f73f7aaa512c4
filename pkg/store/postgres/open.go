package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/lifecycle"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/read"
	"github.com/assay-run/assay/pkg/store/postgres/internal/registry"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
	"github.com/assay-run/assay/pkg/store/postgres/internal/submit"
	"github.com/assay-run/assay/pkg/store/postgres/internal/transfer"
)

// Config is the database and its use. Only DSN is required.
type Config struct {
	DSN            string
	MaxConns       int32           // default: pool_max_conns in the DSN, else 16
	MinConns       int32           // kept open while idle, default 2
	Timeout        time.Duration   // of every call that has no earlier deadline, default 15s
	InfraBudget    int             // attempts lost to infrastructure before a job is given up, default 20
	PoisonAfter    int             // workers that a job may take with it before it is given up, at least 2, default 3
	PoisonWait     time.Duration   // how long a worker must be silent until it counts as the last of these, default 30s
	RetryDelay     time.Duration   // before the first retry after a failure of ours, doubled by each; default 100ms, negative: none
	OpenBatchTTL   time.Duration   // an open batch without an append for so long is dropped, default 1h
	KeyTTL         time.Duration   // how long idempotency keys are remembered, default 24h
	TakeBackAfter  time.Duration   // dispatched for so long without a claim: back to the queue, default 5m
	QueueLife      time.Duration   // a job that waited for so long since it was submitted ends, default 720h, negative: none does
	AgeEvery       time.Duration   // waiting for so long is worth a point of priority, at least 1ms, default 1m
	Tracer         pgx.QueryTracer // optional
	ApplicationTag string          // application_name, default "assay"
	Protocol       int             // protocol version, in the application name as well: see Spoken

	// Less than there should be, in tests.
	cancelTime           time.Duration
	retrySlice, jobsLook int64
}

func (c Config) withDefaults() Config {
	c.MinConns = cmp.Or(c.MinConns, 2)
	c.Timeout = cmp.Or(c.Timeout, 15*time.Second)
	c.InfraBudget = cmp.Or(c.InfraBudget, 20)
	c.PoisonAfter = cmp.Or(c.PoisonAfter, 3)
	c.PoisonAfter = max(c.PoisonAfter, 2)
	c.PoisonWait = cmp.Or(c.PoisonWait, 30*time.Second)
	c.RetryDelay = cmp.Or(c.RetryDelay, 100*time.Millisecond)
	c.RetryDelay = max(c.RetryDelay, 0)
	c.OpenBatchTTL = cmp.Or(c.OpenBatchTTL, time.Hour)
	c.KeyTTL = cmp.Or(c.KeyTTL, 24*time.Hour)
	c.TakeBackAfter = cmp.Or(c.TakeBackAfter, 5*time.Minute)
	c.QueueLife = cmp.Or(c.QueueLife, 30*24*time.Hour)
	c.QueueLife = max(c.QueueLife, 0)
	c.AgeEvery = cmp.Or(c.AgeEvery, time.Minute)
	c.AgeEvery = max(c.AgeEvery, time.Millisecond)
	c.ApplicationTag = cmp.Or(c.ApplicationTag, "assay")
	return c
}

// Store is a store.Store on PostgreSQL: one database, and a part for each role over it.
type Store struct {
	db *pg.DB
	*submit.Submitter
	*lifecycle.Transitions
	*read.Reader
	*registry.Registry
	*schema.Tables
	*transfer.Mover
}

var _ store.Store = (*Store)(nil)

// Open connects to a database whose schema is current (see Migrate). It returns job.ErrInvalid if the DSN cannot be
// parsed or leads to a pooler that shares sessions (see Reach), and job.ErrUnavailable if the server does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	db, err := pg.Open(ctx, pg.Config{DSN: cfg.DSN, MaxConns: cfg.MaxConns, MinConns: cfg.MinConns, Timeout: cfg.Timeout, Tracer: cfg.Tracer,
		ApplicationTag: cfg.ApplicationTag, Protocol: cfg.Protocol})
	if err != nil {
		return nil, err
	}
	r, tables := read.New(db, cfg.jobsLook), schema.New(db)
	return &Store{
		db:        db,
		Reader:    r,
		Submitter: submit.New(db, r, submit.Config{OpenBatchTTL: cfg.OpenBatchTTL, KeyTTL: cfg.KeyTTL, QueueLife: cfg.QueueLife, DropTime: cfg.cancelTime, RetrySlice: cfg.retrySlice}),
		Transitions: lifecycle.New(db, r, lifecycle.Config{InfraBudget: cfg.InfraBudget, PoisonAfter: cfg.PoisonAfter, PoisonWait: cfg.PoisonWait,
			RetryDelay: cfg.RetryDelay, TakeBackAfter: cfg.TakeBackAfter, AgeEvery: cfg.AgeEvery, QueueLife: cfg.QueueLife, CancelTime: cfg.cancelTime}),
		Registry: registry.New(db),
		Tables:   tables,
		Mover:    transfer.New(db, r, tables),
	}, nil
}

// MaxConns is how many connections to the server there are at most.
func (s *Store) MaxConns() int { return int(s.db.MaxConns()) }

// Ping returns an error unless the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Spoken implements store.Registry.
func (s *Store) Spoken(ctx context.Context) (lowest int, err error) { return s.db.Spoken(ctx) }

// Close waits for the calls under way and closes all connections.
func (s *Store) Close() { s.db.Close() }
