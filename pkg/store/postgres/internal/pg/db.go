package pg

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is the database and the way to connect to it.
type Config struct {
	DSN                string
	MaxConns, MinConns int32           // MaxConns 0: pool_max_conns in the DSN, else 16
	Timeout            time.Duration   // of every call that has no earlier deadline
	Tracer             pgx.QueryTracer // optional
	ApplicationTag     string          // application_name
	Protocol           int             // protocol version, in the application name as well: see Spoken
}

// DB is a database and the connections to it. All methods are safe for concurrent use.
type DB struct {
	// Pool is for use within Do and Urgent, which bound and translate a call.
	Pool *pgxpool.Pool

	// News is for the scheduler of this process.
	News News

	cfg     Config
	share   *share   // the connections for calls that can wait
	tenants sync.Map // name → int32; ids never change
	calls   *calls
	// calendar is the list of partitions, as it was a moment ago.
	calendar calendar
	// refusals is when a refused row was last logged, by call.
	refusals sync.Map // string → time.Time
	unmeter  func()
}

// Open connects. It fails with job.ErrInvalid if the DSN cannot be read or leads to a
// pooler that shares sessions (see Reach), and job.ErrUnavailable if the server does not
// answer.
func Open(ctx context.Context, cfg Config) (*DB, error) {
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
	TakesWrites(pc.ConnConfig).Tracer = cfg.Tracer
	pc.ConnConfig.ConnectTimeout = min(cfg.Timeout, 5*time.Second)
	if err := CheckSessions(ctx, pc.ConnConfig); err != nil {
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
		return nil, Translate("open", err)
	}
	db := &DB{cfg: cfg, Pool: pool, share: newShare(cfg.MaxConns), calls: newCalls()}
	if err := db.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	db.unmeter = meterPool(pool, db.share)
	return db, nil
}

// Close waits for the calls under way and closes all connections.
func (db *DB) Close() {
	db.unmeter()
	db.Pool.Close()
}

// MaxConns is how many connections to the server there are at most.
func (db *DB) MaxConns() int32 { return db.cfg.MaxConns }

// Timeout is how long a call takes at most that has no earlier deadline.
func (db *DB) Timeout() time.Duration { return db.cfg.Timeout }

// Do runs one call that can wait, under a deadline: it has a connection when others
// like it have left one (see share). Else it is as urgent.
func (db *DB) Do(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.Timeout)
	defer cancel()
	ctx, leave, err := db.share.enter(ctx)
	if err != nil {
		return Translate(op, fmt.Errorf("wait for a connection: %w", err))
	}
	defer leave()
	return db.Urgent(ctx, op, f)
}

// Urgent runs one call that others wait for, or that has a tight deadline: it may use any connection. It retries
// deadlocks and serialization failures at once, since they wrote nothing, and translates other errors.
func (db *DB) Urgent(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.Timeout)
	defer cancel()
	start := time.Now()
	var err error
	for range 4 {
		if err = f(ctx); !isRolledBack(err) {
			break
		}
	}
	err = Translate(op, err)
	db.calls.ended(ctx, op, start, err)
	return err
}

// session is the settings of every connection; package postgres gives the reasons.
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

// Ping returns an error unless the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.Do(ctx, "ping", func(ctx context.Context) error { return db.Pool.Ping(ctx) })
}
