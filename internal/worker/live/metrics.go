package live

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// metrics count a worker's sessions. Labels come from small fixed sets.
type metrics struct {
	created, ended, steps metric.Int64Counter
	took                  metric.Float64Histogram
	observer              metric.Registration
}

func newMetrics(live func() int) *metrics {
	meter, m := otel.Meter("github.com/assay-run/assay/internal/worker/live"), &metrics{}
	// These names and units are constants, so errors are impossible.
	m.created, _ = meter.Int64Counter("assay_sessions_created", metric.WithDescription("Sessions created, by whether they are forks."))
	m.ended, _ = meter.Int64Counter("assay_sessions_ended", metric.WithDescription("Sessions ended, by outcome; succeeded if closed by the client."))
	m.steps, _ = meter.Int64Counter("assay_session_steps", metric.WithDescription("Snippets and commands executed in sessions, by outcome."))
	m.took, _ = meter.Float64Histogram("assay_session_step_milliseconds", metric.WithDescription("Duration of a snippet or command in a session, including its wait for the previous one."),
		metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5))
	there, _ := meter.Int64ObservableGauge("assay_sessions", metric.WithDescription("Live sessions on this worker."))
	m.observer, _ = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(there, int64(live()))
		return nil
	}, there)
	m.zero()
	return m
}

// zero initializes the counters, because a counter without a first value has no rate.
func (m *metrics) zero() {
	ctx := context.Background()
	for _, how := range []string{"open", "fork"} {
		m.created.Add(ctx, 0, label("how", how))
	}
	for _, o := range []job.Outcome{job.Succeeded, job.Expired, job.Lost, job.OutOfMemory} {
		m.ended.Add(ctx, 0, label("outcome", string(o)))
	}
	for _, o := range []job.Outcome{job.Succeeded, job.Exception, job.TimedOut} {
		m.steps.Add(ctx, 0, label("outcome", string(o)))
	}
}

func (m *metrics) close() {
	if m.observer != nil {
		_ = m.observer.Unregister()
	}
}

func label(k, v string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(k, v)))
}

// untraced lists the operations that clients repeat while nothing happens.
var untraced = map[control.SessionOp]bool{control.SessionPing: true, control.SessionKeep: true, control.SessionPending: true}

// observed handles a request as a span of the client's trace, and counts it.
func (m *Manager) observed(ctx context.Context, c control.SessionCall) (reply control.SessionReply, err error) {
	if untraced[c.Op] {
		return m.handle(ctx, c)
	}
	began := time.Now()
	if c.TraceParent != "" {
		about := telemetry.About{Session: c.Session, Tenant: c.Tenant, Pool: m.Pool, Worker: m.Worker}
		var end func(error)
		ctx, end = telemetry.Serve(ctx, "session "+string(c.Op), c.TraceParent, about)
		defer func() {
			if e := reply.Execute; e != nil {
				telemetry.Outcome(ctx, e.Outcome)
			}
			end(err)
		}()
	}
	reply, err = m.handle(ctx, c)
	if e := reply.Execute; e != nil {
		m.metrics.steps.Add(ctx, 1, label("outcome", string(e.Outcome)))
		m.metrics.took.Record(ctx, job.Milliseconds(time.Since(began)))
	}
	return reply, err
}
