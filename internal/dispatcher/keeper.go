package dispatcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/store"
)

const (
	keepLook  = 10 * time.Second // time between checks for due chores
	keepEvery = time.Hour
	// The first retry after a failure waits keepAgain; each further one waits twice as long, up to keepLongest.
	keepAgain   = time.Minute
	keepLongest = 30 * time.Minute
)

// keeper runs the maintenance of whole tables on the leader: it creates partitions ahead and removes old ones. It is
// separate from the reaper, because a chore may take long.
type keeper struct {
	store     keeperStore
	leader    *leader
	metrics   *metrics
	log       *slog.Logger
	retention time.Duration
	audit     time.Duration // retention of audited actions; 0: forever
	chores    []*chore
	began     time.Time
}

// chore is one periodic task.
type chore struct {
	name  string
	do    func(ctx context.Context) error
	due   time.Time
	again backoff.ExponentialBackOff // backoff after failures in a row
	done  atomic.Int64               // Unix time of the last success; 0: none here
}

// keeperStore is the part of the store that a keeper uses.
type keeperStore interface {
	Maintain(ctx context.Context) error
	Forget(ctx context.Context, age time.Duration) (store.Forgotten, error)
	ForgetActions(ctx context.Context, age time.Duration) (int64, error)
}

// start registers the chores and returns k.
func (k *keeper) start() *keeper {
	k.began = time.Now()
	k.chores = append(k.chores, newChore("maintain", k.store.Maintain))
	if k.retention > 0 {
		k.chores = append(k.chores, newChore("forget", k.forget))
	}
	if k.audit > 0 {
		k.chores = append(k.chores, newChore("forget actions", func(ctx context.Context) error {
			_, err := k.store.ForgetActions(ctx, k.audit)
			return err
		}))
	}
	return k
}

func newChore(name string, do func(ctx context.Context) error) *chore {
	return &chore{name: name, do: do, again: backoff.ExponentialBackOff{InitialInterval: keepAgain, Multiplier: 2, MaxInterval: keepLongest}}
}

func (k *keeper) run(ctx context.Context) {
	unregister, err := k.register()
	if err != nil {
		k.log.WarnContext(ctx, "gauge of upkeep not registered", "error", err)
		return
	}
	defer unregister()
	tick := time.NewTicker(keepLook)
	defer tick.Stop()
	for {
		for _, c := range k.chores {
			if k.leader.is() && !time.Now().Before(c.due) {
				k.tend(ctx, c)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tend runs a chore and sets its next due time.
func (k *keeper) tend(ctx context.Context, c *chore) {
	err := c.do(ctx)
	if err == nil {
		c.again.Reset()
		c.due = time.Now().Add(keepEvery)
		c.done.Store(time.Now().Unix())
		return
	}
	wait := c.again.NextBackOff()
	c.due = time.Now().Add(wait)
	if ctx.Err() == nil {
		k.log.WarnContext(ctx, "upkeep failed; will retry", "task", c.name, "again_in", wait, "error", err)
	}
}

// done returns the last success of each task, on this dispatcher or an earlier leader.
func (k *keeper) done() map[string]time.Time {
	all := map[string]time.Time{}
	for _, c := range k.chores {
		if at := c.done.Load(); at > 0 {
			all[c.name] = time.Unix(at, 0).UTC()
		}
	}
	return all
}

// learn takes over the times that the leader reports, so that they survive a change of the leader.
func (k *keeper) learn(all map[string]time.Time) {
	for _, c := range k.chores {
		if at := all[c.name].Unix(); at > c.done.Load() {
			c.done.Store(at)
		}
	}
}

func (k *keeper) forget(ctx context.Context) error {
	f, err := k.store.Forget(ctx, k.retention)
	if f.Days+f.Batches+f.Sessions > 0 {
		k.log.InfoContext(ctx, "expired history deleted", "days", f.Days, "batches", f.Batches, "sessions", f.Sessions, "older_than", k.retention)
		for kind, n := range map[string]int{"day": f.Days, "forgotten_batch": f.Batches, "session": f.Sessions} {
			k.metrics.reaps.Add(ctx, int64(n), label("kind", kind))
		}
	}
	return err
}

func (k *keeper) register() (unregister func(), err error) {
	meter := otel.Meter(scope)
	last, err := meter.Int64ObservableGauge("assay_upkeep_success_timestamp_seconds",
		metric.WithDescription("Time of the last success of a leader's task, by task. Before the first success, the start time of the dispatcher."))
	if err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, c := range k.chores {
			at := c.done.Load()
			if at == 0 {
				at = k.began.Unix()
			}
			o.ObserveInt64(last, at, metric.WithAttributes(attribute.String("task", c.name)))
		}
		return nil
	}, last)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Unregister() }, nil
}
