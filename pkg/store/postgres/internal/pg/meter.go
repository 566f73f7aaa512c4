package pg

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
)

const scope = "github.com/assay-run/assay/pkg/store/postgres"

// calls is the calls to PostgreSQL by purpose; names are constants of this package. Each name has a total time and no
// histogram, since there are a hundred names.
type calls struct {
	n, rows metric.Int64Counter
	seconds metric.Float64Counter
	labels  sync.Map // callLabels → metric.MeasurementOption
}

type callLabels struct {
	name   string
	failed bool
}

func newCalls() *calls {
	m := otel.Meter(scope)
	// Instruments of these names cannot be wrong.
	n, _ := m.Int64Counter("assay_database_calls", metric.WithDescription("Calls to PostgreSQL, by call and result."))
	seconds, _ := m.Float64Counter("assay_database_call_seconds", metric.WithDescription("Duration of the calls to PostgreSQL, including retries."))
	rows, _ := m.Int64Counter("assay_database_rows_refused", metric.WithDescription("Rows that PostgreSQL rejected, set aside or skipped, by call."))
	return &calls{n: n, rows: rows, seconds: seconds}
}

// ended counts a call that began at a time.
func (c *calls) ended(ctx context.Context, name string, began time.Time, err error) {
	l := callLabels{name, errors.Is(err, job.ErrUnavailable)}
	o, ok := c.labels.Load(l)
	if !ok {
		result := "ok"
		if l.failed {
			result = "error"
		}
		o, _ = c.labels.LoadOrStore(l, metric.WithAttributeSet(attribute.NewSet(attribute.String("call", name), attribute.String("result", result))))
	}
	c.n.Add(ctx, 1, o.(metric.MeasurementOption))
	c.seconds.Add(ctx, time.Since(began).Seconds(), o.(metric.MeasurementOption))
}

// meterPool reports the pool's own figures until stop. A wait for a connection shows first here when the whole system
// is slow. A wait for a place in the share counts as a wait for a connection.
func meterPool(pool *pgxpool.Pool, shared *share) (stop func()) {
	m := otel.Meter(scope)
	// Instruments of these names and units cannot be wrong.
	conns, _ := m.Int64ObservableGauge("assay_database_connections", metric.WithDescription("Connections to PostgreSQL, by state."))
	most, _ := m.Int64ObservableGauge("assay_database_connections_max", metric.WithDescription("Maximum connections to PostgreSQL."))
	acquires, _ := m.Int64ObservableCounter("assay_database_acquires", metric.WithDescription("Connections acquired, by whether one was free."))
	waited, _ := m.Float64ObservableCounter("assay_database_acquire_wait_seconds", metric.WithDescription("Time spent waiting for a free connection."))
	state := func(s string) metric.MeasurementOption { return metric.WithAttributes(attribute.String("state", s)) }
	result := func(s string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("result", s))
	}
	r, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := pool.Stat()
		o.ObserveInt64(conns, int64(s.AcquiredConns()), state("acquired"))
		o.ObserveInt64(conns, int64(s.IdleConns()), state("idle"))
		o.ObserveInt64(conns, int64(s.ConstructingConns()), state("constructing"))
		o.ObserveInt64(most, int64(s.MaxConns()))
		o.ObserveInt64(acquires, s.AcquireCount()-s.EmptyAcquireCount(), result("free"))
		o.ObserveInt64(acquires, s.EmptyAcquireCount()+shared.waited.Load(), result("waited"))
		o.ObserveInt64(acquires, s.CanceledAcquireCount()+shared.gaveUp.Load(), result("given_up"))
		o.ObserveFloat64(waited, (s.EmptyAcquireWaitTime() + time.Duration(shared.nanos.Load())).Seconds())
		return nil
	}, conns, most, acquires, waited)
	if err != nil {
		otel.Handle(err)
		return func() {}
	}
	return func() { _ = r.Unregister() }
}
