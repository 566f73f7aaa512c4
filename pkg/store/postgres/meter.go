package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meterPool has the pool's own figures reported, until stop. Who waits for a
// connection waits for the whole system: it shows here first. To wait for a place in the
// share is to wait for a connection.
func meterPool(pool *pgxpool.Pool, shared *share) (stop func()) {
	m := otel.Meter("github.com/assay-run/assay/pkg/store/postgres")
	// Instruments of these names and units cannot be wrong.
	conns, _ := m.Int64ObservableGauge("assay_database_connections", metric.WithDescription("Connections to PostgreSQL, by state."))
	most, _ := m.Int64ObservableGauge("assay_database_connections_max", metric.WithDescription("Most connections that there may be."))
	acquires, _ := m.Int64ObservableCounter("assay_database_acquires", metric.WithDescription("Connections asked for, by whether one was free."))
	waited, _ := m.Float64ObservableCounter("assay_database_acquire_wait_seconds", metric.WithDescription("Time that was waited for a connection when none was free."))
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
