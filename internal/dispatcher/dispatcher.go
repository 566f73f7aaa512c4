package dispatcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// Config configures a dispatcher. Zero fields mean the default.
type Config struct {
	LeaseTTL       time.Duration       // a job without a heartbeat for so long is taken back; default 30s
	ScheduleEvery  time.Duration       // time between scheduler passes without a wake-up; default 1s
	ReapEvery      time.Duration       // period of the reaper; default 2s
	RepublishAfter time.Duration       // age at which unclaimed jobs are published again; default 15s
	RegistryEvery  time.Duration       // period of storing and counting workers; default 3s
	Objects        Objects             // store that is swept of orphaned objects; default: none
	SweepEvery     time.Duration       // period of the sweeper; default 6h
	OrphanAge      time.Duration       // minimum age of swept objects; default 24h
	BlobAge        time.Duration       // inputs and environments not requested within it are removed; 0: never
	Retention      time.Duration       // jobs, batches and sessions that ended longer ago are removed; 0: never
	AuditRetention time.Duration       // audited actions that are older are removed; 0: never
	Pools          placement.Pools     // configured pools; the gauges include them even without workers
	Quotas         nouns.QuotaDefaults // of tenants whose ceilings set none
	MaxConnections int                 // connection limit of Postgres, for the report; 0: unknown
	MinWindow      int                 // least number of jobs dispatched ahead of a pool's workers; default 8
	Secrets        Secrets             // default: none
	// EnvironmentWitnesses is how many workers of a pool must have built an environment before its other workers take
	// it from the object store; 0: never.
	EnvironmentWitnesses int
	Log                  *slog.Logger
}

func (c Config) withDefaults() Config {
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 30*time.Second)
	c.ScheduleEvery = cmp.Or(c.ScheduleEvery, time.Second)
	c.ReapEvery = cmp.Or(c.ReapEvery, 2*time.Second)
	c.RepublishAfter = cmp.Or(c.RepublishAfter, 15*time.Second)
	c.RegistryEvery = cmp.Or(c.RegistryEvery, 3*time.Second)
	c.SweepEvery = cmp.Or(c.SweepEvery, 6*time.Hour)
	c.OrphanAge = cmp.Or(c.OrphanAge, 24*time.Hour)
	c.MinWindow = cmp.Or(c.MinWindow, 8)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Secrets == nil {
		c.Secrets = noSecrets{}
	}
	return c
}

// Secrets reveals the secrets of claimed jobs. *secret.Keeper implements it.
type Secrets interface {
	Reveal(ctx context.Context, claimed []store.Claimed) (map[job.ID]control.Secrets, error)
}

// noSecrets is the Secrets of a fleet without secrets.
type noSecrets struct{}

func (noSecrets) Reveal(context.Context, []store.Claimed) (map[job.ID]control.Secrets, error) {
	return nil, nil
}

// Queue is the part of the queue that a dispatcher uses.
type Queue interface {
	queue.Publisher
	control.Server
	control.Bus
}

// Dispatcher is one replica of the dispatcher.
type Dispatcher struct {
	cfg       Config
	queue     Queue
	log       *slog.Logger
	events    *events
	scheduler *scheduler
	recorder  *recorder
	assigner  *assigner
	fleet     *fleet.Fleet
	sessions  *session.Ends
	leader    *leader
	reaper    *reaper
	keeper    *keeper
	sweeper   *sweeper
	gauges    *gauges
	reports   *reporter
}

// Store is the part of the store that a Dispatcher uses, loop by loop.
type Store interface {
	schedulerStore
	classStore
	hintStore
	repeatStore
	recorderStore
	reaperStore
	keeperStore
	sweeperStore
	reporterStore
	gaugeStore
	store.Leaders
	fleet.Store
	session.EndStore
}

// New returns a Dispatcher that is idle until Run. It fails if a metric cannot be created.
func New(cfg Config, s Store, q Queue) (*Dispatcher, error) {
	cfg = cfg.withDefaults()
	m, err := newMetrics()
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	d := &Dispatcher{cfg: cfg, queue: q, log: cfg.Log}
	d.events = newEvents(q, d.log)
	d.fleet = fleet.New(fleet.Config{Every: cfg.RegistryEvery, Pools: cfg.Pools, Log: cfg.Log}, s)
	d.sessions = &session.Ends{Store: s, Log: d.log}
	d.leader = newLeader(s, d.log)
	d.scheduler = &scheduler{store: s, publisher: q, fleet: d.fleet, classes: newClasses(s, q, d.fleet, cfg.Pools, d.log), leader: d.leader,
		peers: &peerEvents{bus: q, store: s, log: d.log}, pacer: newPacer(cfg.ScheduleEvery), metrics: m, log: d.log, minWindow: cfg.MinWindow}
	d.scheduler.repeats = &repeats{store: s, events: d.events, metrics: m, log: d.log, answered: d.scheduler.room, images: d.fleet.Images}
	recorder := recorder{store: s, fleet: d.fleet, scheduler: d.scheduler, events: d.events, metrics: m,
		secrets: cfg.Secrets, pools: cfg.Pools, witnesses: cfg.EnvironmentWitnesses, log: d.log, ttl: cfg.LeaseTTL}
	d.recorder = recorder.start()
	d.assigner = &assigner{fleet: d.fleet, scheduler: d.scheduler, recorder: d.recorder, queue: q, secrets: cfg.Secrets, metrics: m, log: d.log, ttl: cfg.LeaseTTL}
	d.reports = &reporter{store: s, leader: d.leader, every: cfg.RegistryEvery, log: d.log, looks: &d.scheduler.looks, reaps: &timings{},
		waiting: d.recorder.waiting, connections: cfg.MaxConnections, quotas: cfg.Quotas}
	d.reaper = &reaper{store: s, reaped: d.reports.reaped, queue: q, leader: d.leader, scheduler: d.scheduler, sessions: d.sessions, metrics: m, log: d.log,
		every: cfg.ReapEvery, republishAfter: cfg.RepublishAfter}
	keeper := keeper{store: s, leader: d.leader, metrics: m, log: d.log, retention: cfg.Retention, audit: cfg.AuditRetention}
	d.keeper = keeper.start()
	d.reports.upkeep, d.reports.learn = d.keeper.done, d.keeper.learn
	d.sweeper = &sweeper{Store: s, Objects: cfg.Objects, Leads: d.leader.is, Removed: m.removed, SweepEvery: cfg.SweepEvery,
		OrphanAge: cfg.OrphanAge, BlobAge: cfg.BlobAge, Retention: cfg.Retention, Log: d.log}
	d.gauges = &gauges{store: s, reports: d.reports, fleet: d.fleet, leader: d.leader, pools: cfg.Pools, every: cfg.RegistryEvery, log: d.log}
	return d, nil
}

// Run works until ctx ends. Then it takes no more control messages, answers the ones it took, and returns. It returns
// an error only if it cannot start.
func (d *Dispatcher) Run(ctx context.Context) error {
	if err := d.events.listen(ctx); err != nil {
		return err
	}
	if err := d.sessions.Listen(ctx, d.queue); err != nil {
		return err
	}
	if err := d.scheduler.listen(ctx); err != nil {
		return err
	}
	if err := d.queue.OnWake(ctx, topicFleet, func([]byte) { d.fleet.Look() }); err != nil {
		return err
	}
	if err := d.fleet.Refresh(ctx); err != nil {
		d.log.WarnContext(ctx, "worker registry not read", "error", err)
	}
	d.leader.stand(ctx)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){d.scheduler.run, d.reaper.run, d.keeper.run, d.sweeper.Run, d.fleet.Run, d.gauges.run, d.leader.run} {
		loops.Go(func() { loop(ctx) })
	}
	// The bulk loops outlive ctx, to answer the requests that were taken.
	bulk, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	writers.Go(func() { d.recorder.run(bulk) })
	err := d.queue.Serve(ctx, d.recorder)
	d.assigner.underway.Wait()
	stop()
	writers.Wait()
	loops.Wait()
	return err
}

// Dispatch publishes jobs that the store has just dispatched. After an error the reaper publishes them later.
func (d *Dispatcher) Dispatch(ctx context.Context, ds []store.Dispatch) error {
	start := time.Now()
	err := d.scheduler.publish(ctx, ds)
	for _, j := range ds {
		d.scheduler.classes.note(ctx, j.Pool)
		telemetry.Step(ctx, "dispatch", j.TraceParent, start, aboutDispatch(j))
	}
	return err
}

// Assign chooses a worker with a free slot and sets it in j, before j is submitted. It returns nil if there is none or j
// may use the result cache. Call submitted with the result of the submit: it sends the job to the worker if a lease
// was issued.
func (d *Dispatcher) Assign(j *store.NewJob) (submitted func(ctx context.Context, issued *store.Dispatch, err error)) {
	return d.assigner.assign(j)
}

// Window returns how many jobs of a class may be dispatched and unclaimed. Single jobs are dispatched within this
// bound at submission, without a scheduler pass. It is 0 while no worker takes such jobs: then they stay queued, with
// the reason.
func (d *Dispatcher) Window(class string) int {
	crew := d.fleet.Crew(class)
	if crew.Slots == 0 {
		return 0
	}
	return d.scheduler.window(crew)
}

// Fleet returns the workers known to this dispatcher.
func (d *Dispatcher) Fleet() *fleet.Fleet { return d.fleet }

// Sweep sweeps the object store now. If dry is set, it only counts.
func (d *Dispatcher) Sweep(ctx context.Context, dry bool) (api.SweepReport, error) {
	return d.sweeper.Sweep(ctx, dry)
}

// Wake notifies the scheduler of queued jobs.
func (d *Dispatcher) Wake() { d.scheduler.wake() }

// topicFleet announces that an operator changed a worker in the store.
const topicFleet = "fleet"

// FleetChanged notifies every dispatcher that an operator changed the state of workers. Dispatchers that miss it read
// the change within RegistryEvery.
func (d *Dispatcher) FleetChanged(ctx context.Context) {
	if err := d.queue.Wake(topicFleet, nil); err != nil {
		d.log.WarnContext(ctx, "fleet change not broadcast; peers will poll", "error", err)
	}
}

// WatchRecord is WatchJob for callers that need only the record. record returns it if this dispatcher stored it, else
// nil.
func (d *Dispatcher) WatchRecord(id job.ID) (changed <-chan struct{}, record func() json.RawMessage, stop func()) {
	return d.events.watchRecord(id)
}

// WatchJob returns a channel that yields after the job's record may have changed. Some hints may be missing, others
// redundant. The caller must call stop.
func (d *Dispatcher) WatchJob(id job.ID) (changed <-chan struct{}, stop func()) {
	return d.events.watch(id)
}

// WatchBatch is WatchJob for a batch.
func (d *Dispatcher) WatchBatch(id job.ID) (changed <-chan struct{}, stop func()) {
	return d.events.watch(id)
}
