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
	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/session"
	"github.com/assay-run/assay/internal/sweep"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// Config is how a dispatcher behaves. The zero value of a field is its default.
type Config struct {
	LeaseTTL       time.Duration       // without a heartbeat for so long a job is taken back; default 30s
	ScheduleEvery  time.Duration       // look for queued jobs even without a wake-up; default 1s
	ReapEvery      time.Duration       // default 2s
	RepublishAfter time.Duration       // dispatched but unclaimed for so long: published again; default 15s
	RegistryEvery  time.Duration       // how often workers are written down and counted; default 3s
	Objects        sweep.Objects       // to be swept of what belongs to no record; default: none
	SweepEvery     time.Duration       // default 6h
	OrphanAge      time.Duration       // objects younger than that are not swept; default 24h
	BlobAge        time.Duration       // inputs and environments that nobody asked for within it are removed; 0: never
	Retention      time.Duration       // what has been over for longer is removed; 0: never
	AuditRetention time.Duration       // actions that were done longer ago are removed; 0: never
	Pools          placement.Pools     // what is said of pools; the gauges name them even while they are empty
	Quotas         nouns.QuotaDefaults // of tenants whose ceilings have none
	MaxConnections int                 // to Postgres, for its report; 0: unknown
	MinWindow      int                 // least jobs dispatched ahead of the workers of a pool; default 8
	Secrets        Secrets             // default: there are none
	// EnvironmentWitnesses is how many workers of a pool must have built the same environment
	// before others of the pool take it from the object store; 0: none do.
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

// Secrets opens what claimed jobs need to know; *secret.Keeper does.
type Secrets interface {
	Reveal(ctx context.Context, claimed []store.Claimed) (map[job.ID]control.Secrets, error)
}

// noSecrets is a fleet that keeps none.
type noSecrets struct{}

func (noSecrets) Reveal(context.Context, []store.Claimed) (map[job.ID]control.Secrets, error) {
	return nil, nil
}

// Queue is what a dispatcher needs of the queue.
type Queue interface {
	queue.Publisher
	control.Server
	control.Bus
}

// Dispatcher is one replica.
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
	sweeper   *sweep.Sweeper
	gauges    *gauges
	reports   *reporter
}

// New returns a Dispatcher that does nothing until Run.
func New(cfg Config, s store.Store, q Queue) (*Dispatcher, error) {
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
	d.sweeper = &sweep.Sweeper{Store: s, Objects: cfg.Objects, Leads: d.leader.is, Removed: m.removed, SweepEvery: cfg.SweepEvery,
		OrphanAge: cfg.OrphanAge, BlobAge: cfg.BlobAge, Retention: cfg.Retention, Log: d.log}
	d.gauges = &gauges{store: s, reports: d.reports, fleet: d.fleet, leader: d.leader, pools: cfg.Pools, every: cfg.RegistryEvery, log: d.log}
	return d, nil
}

// Run works until ctx ends: it then takes no more control messages, answers
// those it has taken, and returns. It fails only if it cannot start.
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
	// The bulk loops outlive ctx: requests that were taken are still answered.
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

// Dispatch publishes jobs that the store has just dispatched. An error costs
// time, never a job: the reaper publishes again.
func (d *Dispatcher) Dispatch(ctx context.Context, ds []store.Dispatch) error {
	start := time.Now()
	err := d.scheduler.publish(ctx, ds)
	for _, j := range ds {
		d.scheduler.classes.note(ctx, j.Pool)
		telemetry.Step(ctx, "dispatch", j.TraceParent, start, aboutDispatch(j))
	}
	return err
}

// Assign names in j a worker that has room for it, before it is submitted; nil: there
// is none. submitted is to be told what the store returned: it hands the job over if
// there is a lease.
func (d *Dispatcher) Assign(j *store.NewJob) (submitted func(ctx context.Context, issued *store.Dispatch, err error)) {
	return d.assigner.assign(j)
}

// Window is how many jobs of a class may be dispatched and not claimed: the
// scheduler's bound, for those that come one by one and do not wait for it.
func (d *Dispatcher) Window(class string) int {
	return d.scheduler.window(d.fleet.Crew(class))
}

// Fleet is the workers as this dispatcher knows them.
func (d *Dispatcher) Fleet() *fleet.Fleet { return d.fleet }

// Sweep is a sweep of the object store out of turn; dry: it only counts what it would remove.
func (d *Dispatcher) Sweep(ctx context.Context, dry bool) (api.SweepReport, error) {
	return d.sweeper.Sweep(ctx, dry)
}

// Wake tells the scheduler that something was queued.
func (d *Dispatcher) Wake() { d.scheduler.wake() }

// topicFleet says that somebody changed what the store has of workers.
const topicFleet = "fleet"

// FleetChanged tells every dispatcher that an operator changed what holds for workers.
// Those that it does not reach find out within RegistryEvery.
func (d *Dispatcher) FleetChanged(ctx context.Context) {
	if err := d.queue.Wake(topicFleet, nil); err != nil {
		d.log.WarnContext(ctx, "fleet change not broadcast; peers will poll", "error", err)
	}
}

// WatchRecord is WatchJob for who wants the record only. Where it is written by
// way of this dispatcher, record returns it; else nil.
func (d *Dispatcher) WatchRecord(id job.ID) (changed <-chan struct{}, record func() json.RawMessage, stop func()) {
	return d.events.watchRecord(id)
}

// WatchJob returns a channel that yields after the job's record may have
// changed. Hints may be missing and there may be too many; stop must be called.
func (d *Dispatcher) WatchJob(id job.ID) (changed <-chan struct{}, stop func()) {
	return d.events.watch(id)
}

// WatchBatch does the same for a batch.
func (d *Dispatcher) WatchBatch(id job.ID) (changed <-chan struct{}, stop func()) {
	return d.events.watch(id)
}
