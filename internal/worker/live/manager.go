package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/worker/awake"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

var errEnded = errors.New("the session has ended")

// Config holds the dependencies of a Manager.
type Config struct {
	Worker  string
	Pool    string // of the worker, for traces
	Runtime runtime.Runtime
	Server  control.SessionServer
	// Plan plans a policy for a kind of session.
	Plan func(policy.Policy, policy.Use) (*policy.Plan, error)
	// Limits of commitments to sessions.
	Limits Limits
	// Suffers returns why this host has no room for another session, or "", and whether it is almost
	// out of memory. Nil: never.
	Suffers func() (why string, starves bool)
	// Exports returns the exporter of a new session. Nil: no exports.
	Exports func(tenant string, session job.ID, p policy.Artifacts) Exporter
	// Awake keeps processors awake while a client waits. Nil: they may sleep.
	Awake *awake.Keeper
}

// Manager runs the sessions of one worker.
type Manager struct {
	Config
	base    context.Context // of the sessions
	running sync.WaitGroup

	ledger  *ledger
	metrics *metrics

	mu      sync.Mutex
	live    map[job.ID]*live
	making  map[job.ID]*making
	closed  bool
	until   time.Time // when the sessions end unless a dispatcher answers a heartbeat before; zero: never
	starved int       // seconds during which the host was almost out of memory
}

// New returns a Manager without sessions.
func New(c Config) *Manager {
	if c.Suffers == nil {
		c.Suffers = func() (string, bool) { return "", false }
	}
	m := &Manager{Config: c, ledger: newLedger(c.Limits), live: map[job.ID]*live{}, making: map[job.ID]*making{}}
	m.metrics = newMetrics(m.Live)
	return m
}

// Run serves until ctx ends, and then ends every session and reports it.
func (m *Manager) Run(ctx context.Context) {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer m.metrics.close()
	m.base = base
	serving, silence := context.WithCancel(base)
	defer silence()
	for ctx.Err() == nil {
		err := m.Server.ServeSessions(serving, m.Worker, m.Handle)
		if err == nil {
			break
		}
		slog.WarnContext(ctx, "not subscribed to sessions; retrying", "error", err)
		pause.For(ctx, time.Second)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			m.fence(time.Now())
			m.sweep(time.Now())
			m.relieve()
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	m.closed = true
	for _, l := range m.live {
		l.kill(job.Lost, "its worker was stopped")
	}
	m.mu.Unlock()
	m.running.Wait()
}

// Live returns the number of sessions.
func (m *Manager) Live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.live)
}

// sweep ends idle sessions and sessions whose client is gone.
func (m *Manager) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.live {
		l.mu.Lock()
		idle, unseen, busy := now.Sub(l.used), now.Sub(l.seen), len(l.waiting) > 0 || l.gathering
		l.mu.Unlock()
		switch {
		case l.spec.Lease > 0 && unseen > l.spec.Lease.D():
			l.kill(job.Expired, fmt.Sprintf("its client sent no request for %s", l.spec.Lease))
		case !busy && idle > l.spec.IdleTimeout.D():
			l.kill(job.Expired, fmt.Sprintf("it was idle for %s", l.spec.IdleTimeout))
		}
	}
}

// starvedFor is how many seconds the host may be almost out of memory before a session is ended.
const starvedFor = 2

// relieve ends a session if the host is almost out of memory. Commitments exceed the memory, and
// the kernel would kill any process. It selects the tenant with the most committed memory, and its
// least recently used session.
func (m *Manager) relieve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, starves := m.Suffers(); !starves {
		m.starved = 0
		return
	}
	if m.starved++; m.starved < starvedFor {
		return
	}
	tenant := m.ledger.largest()
	var oldest *live
	var used time.Time
	for _, l := range m.live {
		if l.tenant != tenant {
			continue
		}
		l.mu.Lock()
		if at := l.used; l.end == nil && (oldest == nil || at.Before(used)) {
			oldest, used = l, at
		}
		l.mu.Unlock()
	}
	if oldest != nil {
		m.starved = 0
		oldest.kill(job.OutOfMemory, "the host ran short of memory, and its tenant's sessions have the largest promises")
	}
}

// Handle handles one request.
func (m *Manager) Handle(ctx context.Context, c control.SessionCall) (control.SessionReply, error) {
	return m.observed(ctx, c)
}

func (m *Manager) handle(ctx context.Context, c control.SessionCall) (control.SessionReply, error) {
	if c.Op != control.SessionPing && c.Op != control.SessionKeep { // every client sends these periodically
		m.Awake.Stay()
	}
	if c.Op == control.SessionOpen {
		return m.open(ctx, c)
	}
	m.mu.Lock()
	l := m.live[c.Session]
	m.mu.Unlock()
	if l == nil && c.Op == control.SessionClose && m.unmake(c) {
		return control.SessionReply{}, nil
	}
	if l == nil || c.Tenant != l.tenant && c.Op != control.SessionPing {
		return control.SessionReply{}, fmt.Errorf("%w: session %s is not on worker %s", job.ErrNotFound, c.Session, m.Worker)
	}
	if c.Op == control.SessionPing {
		return control.SessionReply{}, nil
	}
	l.mu.Lock()
	l.seen = time.Now()
	l.mu.Unlock()
	var reply control.SessionReply
	var err error
	if c.Op == control.SessionFork {
		if reply, err = m.fork(ctx, l, c.Fork); reply.Ended != nil { // the copy's id
			err = fmt.Errorf("%w: the copy ended as it began: %s", job.ErrRefused, reply.Ended.Message)
		}
		reply.Ended = nil
	} else {
		reply, err = l.do(ctx, c)
	}
	if errors.Is(err, errEnded) {
		err = nil
	}
	select {
	case <-l.over:
		reply.Ended = l.ended()
	default:
	}
	return reply, err
}

// open creates a session and waits until it is ready.
func (m *Manager) open(ctx context.Context, c control.SessionCall) (control.SessionReply, error) {
	if c.Spec == nil {
		return control.SessionReply{}, job.Invalid("spec", "is missing")
	}
	var p policy.Policy
	if err := json.Unmarshal(c.Spec.Policy, &p); err != nil {
		return control.SessionReply{}, job.Invalid("policy", "this worker cannot read it: %v", err)
	}
	plan, err := m.Plan(p, policy.UseOf(c.Spec.Kind))
	if err != nil {
		return control.SessionReply{}, err
	}
	ctx, made, err := m.begin(ctx, c.Session, c.Tenant)
	if err != nil {
		return control.SessionReply{}, err
	}
	defer made()
	if err := m.enter(c.Tenant, plan.Policy); err != nil {
		return control.SessionReply{}, err
	}
	waiting, end := telemetry.StartSpan(ctx, "slot", telemetry.IsolationKey.String(string(plan.Policy.Isolation)))
	slot, err := m.Runtime.Acquire(waiting, runtime.Key{
		Tenant: c.Tenant, Image: c.Spec.Image, Isolation: plan.Policy.Isolation, Kind: "session", Packages: plan.Policy.Requirements()})
	end(err)
	if err != nil {
		m.ledger.give(c.Tenant, shareOf(plan.Policy))
		if failure := new(runtime.BuildError); errors.As(err, &failure) { // another worker would fail alike
			return control.SessionReply{}, job.Invalid("policy.packages", "%s", job.ClipMessage(failure.Message))
		}
		return control.SessionReply{}, fmt.Errorf("make a place for the session: %w", err)
	}
	l := newLive(c.Session, c.Tenant, *c.Spec, plan, slot, func(e control.SessionEvent) { m.tell(c.Session, e) })
	l.inject = l.spec.Functions
	if err := m.start(l, "open"); err != nil {
		return control.SessionReply{}, err
	}
	return m.await(ctx, l)
}

// fork creates a copy of a session and waits until it is ready.
func (m *Manager) fork(ctx context.Context, parent *live, id job.ID) (control.SessionReply, error) {
	ctx, made, err := m.begin(ctx, id, parent.tenant)
	if err != nil {
		return control.SessionReply{}, err
	}
	defer made()
	if err := m.enter(parent.tenant, parent.policy); err != nil {
		return control.SessionReply{}, err
	}
	slot, settle, err := parent.fork(ctx)
	if err != nil {
		m.ledger.give(parent.tenant, shareOf(parent.policy))
		return control.SessionReply{}, err
	}
	defer settle()
	l := newLive(id, parent.tenant, parent.spec, parent.plan, slot, func(e control.SessionEvent) { m.tell(id, e) })
	if err := m.start(l, "fork"); err != nil {
		return control.SessionReply{}, err
	}
	return m.await(ctx, l)
}

// enter reserves room for a session before its creation.
func (m *Manager) enter(tenant string, p policy.Policy) error {
	if why, _ := m.Suffers(); why != "" {
		return fmt.Errorf("%w: worker %s opens no sessions: %s", job.ErrUnavailable, m.Worker, why)
	}
	return m.ledger.take(tenant, shareOf(p))
}

// start starts a session, or closes its slot and frees its room.
func (m *Manager) start(l *live, how string) error {
	l.awake = m.Awake
	if m.Exports != nil {
		l.exporter = m.Exports(l.tenant, l.id, l.policy.Artifacts)
	}
	if err := m.add(l); err != nil {
		l.slot.Close()
		m.ledger.give(l.tenant, shareOf(l.policy))
		return err
	}
	m.metrics.created.Add(m.base, 1, label("how", how))
	m.running.Go(func() {
		l.run(m.base)
		m.metrics.ended.Add(m.base, 1, label("outcome", string(l.ended().Outcome)))
		m.mu.Lock()
		delete(m.live, l.id)
		m.mu.Unlock()
		m.ledger.give(l.tenant, shareOf(l.policy))
	})
	return nil
}

func (m *Manager) add(l *live) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%w: worker %s stops", job.ErrUnavailable, m.Worker)
	}
	if m.live[l.id] != nil {
		return fmt.Errorf("%w: session %s already exists", job.ErrConflict, l.id)
	}
	if s := m.making[l.id]; s != nil && s.closed {
		return fmt.Errorf("%w: session %s was closed before it was made", job.ErrConflict, l.id)
	}
	m.live[l.id] = l
	return nil
}

// await returns when the interpreter is ready for its first execution.
func (m *Manager) await(ctx context.Context, l *live) (control.SessionReply, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case <-l.ready:
	case <-l.over:
		return control.SessionReply{Ended: l.ended()}, nil
	case <-ctx.Done():
		l.kill(job.Lost, "the interpreter did not start in time")
		return control.SessionReply{}, fmt.Errorf("%w: start the session: %w", job.ErrUnavailable, ctx.Err())
	}
	return control.SessionReply{}, nil
}

// tell sends an event to the session's listeners, and an end to every dispatcher.
func (m *Manager) tell(id job.ID, e control.SessionEvent) {
	m.wake(control.SessionTopic(id), e)
	if e.Ended != nil {
		m.wake(control.TopicSessionEnd, e.Ended)
	}
}

func (m *Manager) wake(topic string, v any) {
	body, err := json.Marshal(v)
	if err == nil {
		err = m.Server.Broadcast(m.Worker, topic, body)
	}
	if err != nil {
		slog.WarnContext(m.base, "session event not sent", "topic", topic, "error", err)
	}
}
