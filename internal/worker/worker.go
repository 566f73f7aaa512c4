// Package worker runs jobs. It pulls deliveries from the queue, claims and runs them, reports their
// results, and sends heartbeats.
//
// The path of one job, a file each:
//
//	sources    the classes of jobs that the worker pulls
//	puller     requests as many deliveries as there is room for
//	claimer    turns deliveries into leases, in bulk
//	assigned   accepts jobs that dispatchers assign with a lease
//	attempt    plan → inputs → capacity → slot → run → result
//	compile    compiles programs of the catalogue's languages
//	fetch      fetches input files
//	verdict    rejects a faulty job before its program runs
//	reserver   room for test cases that run side by side
//	blame      runs a job again, alone, after its sandbox broke
//	result     bounds results and stores large outputs beside them
//	sender     sends results and hand-backs, in bulk; acknowledges after the commit
//
// and around it
//
//	leases     the leases held, and their ends
//	heartbeat  renews the leases, receives cancels and losses
//	fence      kills sandboxes before their leases are over
//	drain      stops without charging a job for an attempt
//	batcher    gathers messages that are sent in bulk
//	tail       returns the output of running programs
//	metrics    counts, as tenants and tally do; trace has the spans
//
// These packages do not depend on the worker:
//
//	capacity   promises CPU and memory to jobs
//	code       programs in languages of the catalogue
//	health     host pressure, circuit breaker, and canary jobs at each isolation
//	transfer   files to and from the object store: inputs, artifacts, outputs, exports
//
// A worker holds no database credentials. It connects to the queue, through the queue to the
// dispatchers, and to the object store.
package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/budget"
	"github.com/assay-run/assay/internal/worker/awake"
	"github.com/assay-run/assay/internal/worker/capacity"
	"github.com/assay-run/assay/internal/worker/compile"
	"github.com/assay-run/assay/internal/worker/health"
	"github.com/assay-run/assay/internal/worker/live"
	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/runtime"
)

// Config configures a worker. Defaults fills in zero values.
type Config struct {
	ID      string
	Pool    string
	Version string

	Slots  int      // most jobs held at once, except long-running ones
	CPU    float64  // cores to promise, except to long-running jobs; 0: no bound
	Memory job.Size // memory to promise; 0: no bound

	// LongRunning is the most jobs that run beside the promised slots and cores, because they run
	// for long (see package capacity). 0: all jobs keep their promised slots and cores.
	LongRunning int

	Labels map[string]string // that jobs may require
	Images []string          // the only images that run here; none: any

	// CanaryImage is the image of the worker's own test jobs. One runs at each isolation before the
	// worker takes any job. Empty: none run.
	CanaryImage string

	Sessions live.Limits // on the resources promised to sessions, besides the above

	Pressure health.PressureLimits // host pressure above which no more jobs are taken; zero: no limit
	Data     string                // directory on the file system whose usage is reported; empty: none is

	Heartbeat time.Duration // between heartbeats
	Margin    time.Duration // time between the kill of a sandbox and the end of its lease
	Grace     time.Duration // how long running jobs may go on while draining
	FetchWait time.Duration // longest single wait for deliveries

	InputCache     string // directory of input blobs that jobs share; empty: no cache
	InputCacheSize job.Size

	CompileCache     string // directory of compiled programs; empty: a temporary one
	CompileCacheSize job.Size
}

// Defaults returns c with its defaults instead of zeros.
func (c Config) Defaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Heartbeat, 5*time.Second)
	def(&c.Margin, 3*time.Second)
	def(&c.Grace, 30*time.Second)
	def(&c.FetchWait, 10*time.Second)
	if c.Pool == "" {
		c.Pool = "default"
	}
	if c.Slots == 0 {
		c.Slots = 16
	}
	if c.InputCacheSize == 0 {
		c.InputCacheSize = 2 * job.GiB
	}
	if c.CompileCacheSize == 0 {
		c.CompileCacheSize = job.GiB
	}
	return c
}

// Parts are the dependencies of a worker.
type Parts struct {
	// Class opens the deliveries of a class of jobs.
	Class   func(ctx context.Context, class string) (queue.Consumer, error)
	Control control.Client
	Runtime runtime.Runtime
	Objects transfer.Objects
	// Sessions receives the dispatchers' requests about sessions. nil: this worker holds none.
	Sessions control.SessionServer
	// Awake keeps this host's processors awake while a client waits for one of its
	// jobs or sessions; nil: they may sleep.
	Awake *awake.Keeper
}

// Worker is one worker process. Run may be called once.
type Worker struct {
	cfg Config
	Parts

	sources  *sources
	capacity *capacity.Capacity
	leases   *leases
	planner  *policy.Planner
	inputs   *transfer.Inputs
	compiled *compile.Cache
	transfer *transfer.Store
	proof    *health.Proof
	breaker  *health.Breaker
	pressure *health.Pressure
	usage    *health.UsageMeter
	metrics  *metrics
	tally    *tally
	sessions *live.Manager // nil: none are held here

	claims   *batcher[queue.Message]
	finishes *batcher[finishing]
	memory   *budget.Memory      // of results and artifacts that are being sent
	giants   *batcher[finishing] // results too large for a batch, one after the other
	releases *batcher[releasing]

	attempts   sync.WaitGroup // attempts under way
	background sync.WaitGroup // deletions, for which only the drain waits
	started    time.Time
	draining   atomic.Bool
	cordoned   atomic.Bool            // by an operator, as of the last answer
	assigning  sync.RWMutex           // held for reading while an assignment is taken, for writing while draining begins
	taken      sync.Map               // assigned leases, until their ends
	written    sync.Map               // *written of each job whose program may run, by the job's ID
	underway   atomic.Int64           // attempts, from claim to report
	cpu        cpuRate                // of the sandboxes
	pulled     atomic.Int64           // when deliveries were last requested, as UnixNano
	beat       chan struct{}          // requests a heartbeat now
	ttl        atomic.Int64           // of leases, from the last answered heartbeat; 0: unknown yet
	refused    atomic.Pointer[string] // why the fleet refuses this worker, from the last answered heartbeat
	spoken     atomic.Int64           // protocol version of the last answer; 0 before
	answered   atomic.Int64           // when the last answered heartbeat was sent, as time after started
}

// New returns a worker that Run starts.
func New(cfg Config, parts Parts) (*Worker, error) {
	cfg = cfg.Defaults()
	if cfg.ID == "" {
		return nil, job.Invalid("worker-id", "must not be empty")
	}
	w := &Worker{
		cfg: cfg, Parts: parts,
		capacity: capacity.New(capacity.Limits{Slots: cfg.Slots, LongRunning: cfg.LongRunning, CPU: cfg.CPU, Memory: cfg.Memory}),
		leases:   newLeases(),
		memory:   budget.New(mostResults, mostResults/2),
		breaker:  &health.Breaker{},
		pressure: health.NewPressure(cfg.Pressure),
		usage:    &health.UsageMeter{Dir: cfg.Data, Proc: cfg.Pressure.Proc},
		started:  time.Now(),
		tally:    newTally(time.Now()),
		beat:     make(chan struct{}, 1),
		proof:    health.NewProof(parts.Runtime, cfg.CanaryImage),
		sources:  newSources(cfg.Pool, placement.Offer{}, parts.Class),
	}
	if cfg.CanaryImage != "" {
		w.breaker.Prove = func(level string) error { return w.proof.Check(context.Background(), policy.Isolation(level)) }
	}
	host, _ := w.proof.State()
	w.serveFrom(host)
	var err error
	w.transfer = &transfer.Store{Objects: parts.Objects, Memory: w.memory, Kept: func(ctx context.Context, bytes int64) { w.metrics.countArtifact(ctx, bytes) }}
	if w.inputs, err = transfer.NewInputs(parts.Objects, cfg.InputCache, int64(cfg.InputCacheSize)); err != nil {
		return nil, err
	}
	if w.compiled, err = compile.New(cfg.CompileCache, int64(cfg.CompileCacheSize)); err != nil {
		return nil, err
	}
	if parts.Sessions != nil {
		w.sessions = live.New(live.Config{
			Worker: cfg.ID, Pool: cfg.Pool, Runtime: parts.Runtime, Server: tailServer{parts.Sessions, w}, Awake: parts.Awake,
			Limits: cfg.Sessions, Suffers: w.pressure.Suffers, Exports: w.transfer.Exports,
			Plan: func(p policy.Policy, u policy.Use) (*policy.Plan, error) {
				host, _ := w.proof.State()
				return p.PlanFor(host, u)
			},
		})
	}
	if w.metrics, err = newMetrics(w); err != nil {
		return nil, err
	}
	w.claims = newBatcher(w.claim, maxBatch, 0, nil)
	w.finishes = newBatcher(w.finish, maxBatch, maxBatchBytes, finishing.bytes)
	w.giants = newBatcher(w.finish, 1, 0, nil)
	w.releases = newBatcher(w.release, maxBatch, 0, nil)
	w.claims.rest, w.finishes.rest = w.claimRest, w.finishRest
	return w, nil
}

// proved acts on the results of the canary jobs.
func (w *Worker) proved(host policy.Host, why string) {
	if why == "" {
		w.serveFrom(host)
	}
	w.beatNow()
}

// serveFrom sets the fields that depend on the offered isolations.
func (w *Worker) serveFrom(host policy.Host) {
	w.planner = policy.NewPlanner(host)
	w.sources.proved(w.offerOf(host))
}

// Run works until ctx ends, then drains: it takes no more jobs, lets running ones finish for the
// grace period, hands the rest back and returns. It retries for ever while the queue or the
// dispatchers are unavailable.
func (w *Worker) Run(ctx context.Context) error {
	defer w.metrics.close()
	base, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by the drain
	defer stop()

	var service, senders, takers sync.WaitGroup
	service.Go(func() { w.heartbeats(base) })
	service.Go(func() { w.fences(base) })
	service.Go(func() { w.cancels(base) })
	service.Go(func() { w.pressure.Run(ctx, w.beatNow) })
	service.Go(func() { w.usage.Run(ctx) })
	w.proof.Run(ctx, w.proved)
	service.Go(func() { w.assignments(ctx, base) })
	service.Go(func() { w.classes(ctx) })
	senders.Go(func() { w.finishes.run(base) })
	senders.Go(func() { w.giants.run(base) })
	senders.Go(func() { w.releases.run(base) })
	for range claimLanes {
		takers.Go(func() { w.claims.run(base) })
	}
	if w.sessions != nil {
		service.Go(func() { w.sessions.Run(ctx) })
	}
	w.pullAll(ctx) // returns when ctx has ended

	w.drain(base, &takers)
	w.finishes.close()
	w.giants.close()
	w.releases.close()
	senders.Wait()
	w.background.Wait()
	stop()
	service.Wait()
	w.inputs.Close()
	w.compiled.Close()
	return nil
}
