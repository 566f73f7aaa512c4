package postgres

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Config says which database and how to treat it. Only DSN is required.
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
	AgeEvery       time.Duration   // waiting for so long is worth a point of priority, at least 1ms, default 1m
	Tracer         pgx.QueryTracer // optional
	ApplicationTag string          // application_name, default "assay"
	Protocol       int             // said there, too: see Spoken
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
	c.AgeEvery = cmp.Or(c.AgeEvery, time.Minute)
	c.AgeEvery = max(c.AgeEvery, time.Millisecond)
	c.ApplicationTag = cmp.Or(c.ApplicationTag, "assay")
	return c
}

// Store is a store.Store on PostgreSQL.
type Store struct {
	cfg     Config
	pool    *pgxpool.Pool
	share   *share   // of its connections, for what can wait
	tenants sync.Map // name → int32; ids never change
	// unlimited are the ids of the tenants that had no limit of running jobs when they last
	// submitted one here.
	unlimited sync.Map
	watch     watch
	rounds    rounds // of the scheduler
	calls     *calls
	unmeter   func()
	ended     sync.Map // day (time.Time) that is over → when its last job ended
	// How long a call cancels what waits before it leaves the rest to the next.
	cancelTime time.Duration
	retrySlice int64 // jobs that one statement copies
	jobsLook   int64 // jobs in which a page of a list is looked for
}

var _ store.Store = (*Store)(nil)

// Open connects to a database whose schema is current (see Migrate). It fails
// with job.ErrInvalid if the DSN cannot be read or leads to a pooler that shares
// sessions (see Reach), and job.ErrUnavailable if the server does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	pc, err := parsePool(cfg.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = cmp.Or(cfg.MaxConns, pc.MaxConns)
	pc.MaxConns, pc.MinConns = cfg.MaxConns, min(cfg.MinConns, cfg.MaxConns)
	pc.MaxConnLifetime = time.Hour
	pc.MaxConnLifetimeJitter = 10 * time.Minute
	pc.HealthCheckPeriod = 15 * time.Second
	pc.AfterConnect = cfg.continueLeases
	takesWrites(pc.ConnConfig).Tracer = cfg.Tracer
	pc.ConnConfig.ConnectTimeout = min(cfg.Timeout, 5*time.Second)
	if err := checkSessions(ctx, pc.ConnConfig); err != nil {
		return nil, err
	}
	params := pc.ConnConfig.RuntimeParams
	for k, v := range session {
		params[k] = v
	}
	params["application_name"] = cfg.applicationName()
	params["statement_timeout"] = fmt.Sprint(cfg.Timeout.Milliseconds() + 1000) // ours ends first
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, translate("open", err)
	}
	s := &Store{cfg: cfg, pool: pool, share: newShare(cfg.MaxConns), calls: newCalls(), cancelTime: time.Second, retrySlice: retrySlice, jobsLook: jobsLook}
	if err := s.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	s.unmeter = meterPool(pool, s.share)
	return s, nil
}

// session is what every connection is set to; doc.go says why.
var session = map[string]string{
	"timezone":                            "UTC",
	"synchronous_commit":                  "on",
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_bitmapscan":                   "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"seq_page_cost":                       "0", // the price of a plan is the number of rows it touches
	"random_page_cost":                    "0",
	"cpu_tuple_cost":                      "1",
	"work_mem":                            "64MB", // the arrays of a bulk insert stay in memory
	"idle_in_transaction_session_timeout": "30s",
}

// MaxConns is how many connections to the server there are at most.
func (s *Store) MaxConns() int { return int(s.cfg.MaxConns) }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "ping", func(ctx context.Context) error { return s.pool.Ping(ctx) })
}

// Close waits for the calls under way and closes all connections.
func (s *Store) Close() {
	s.unmeter()
	s.pool.Close()
}

// do runs one call that can wait, under a deadline: it has a connection when others
// like it have left one (see share). Else it is as urgent.
func (s *Store) do(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	ctx, leave, err := s.share.enter(ctx)
	if err != nil {
		return translate(op, fmt.Errorf("wait for a connection: %w", err))
	}
	defer leave()
	return s.urgent(ctx, op, f)
}

// urgent runs one call that others wait for, or that is soon too late: any connection
// is for it. Deadlocks and serialization failures wrote nothing and are tried again at
// once; what remains is translated.
func (s *Store) urgent(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	start := time.Now()
	var err error
	for range 4 {
		if err = f(ctx); !wroteNothing(err) {
			break
		}
	}
	err = translate(op, err)
	s.calls.ended(ctx, op, start, err)
	return err
}

// uuid converts an id that comes from inside and is therefore valid; a bad one
// becomes NULL, which no row matches.
func uuid(id job.ID) pgtype.UUID {
	var u pgtype.UUID
	_ = u.Scan(string(id))
	return u
}

// nilID stands for "no batch" in the tables.
const nilID job.ID = "00000000-0000-0000-0000-000000000000"

func batchID(u pgtype.UUID) job.ID {
	if u.Bytes == [16]byte{} {
		return ""
	}
	return jobID(u)
}

func jobID(u pgtype.UUID) job.ID { return job.ID(u.String()) }
