package egress

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// counters are the counters of all proxies in this process.
type counters struct {
	bytes, attempts metric.Int64Counter
	sent, received  metric.MeasurementOption
	decision        map[Decision]metric.MeasurementOption
}

var count = newCounters()

func newCounters() *counters {
	m := otel.Meter("github.com/assay-run/assay/pkg/runtime/egress")
	label := func(k, v string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String(k, v)))
	}
	c := &counters{sent: label("direction", "sent"), received: label("direction", "received"), decision: map[Decision]metric.MeasurementOption{}}
	// These names and units are constants, so errors are impossible.
	c.bytes, _ = m.Int64Counter("assay_egress_bytes", metric.WithDescription("Bytes between programs and remote hosts, by direction."))
	c.attempts, _ = m.Int64Counter("assay_egress_attempts", metric.WithDescription("Connection attempts of programs, by decision."))
	for _, d := range []Decision{Allowed, Refused, Failed} {
		c.decision[d] = label("decision", string(d))
	}
	return c
}

// Zero initializes the counters, because a counter without a first value has no rate.
func Zero() {
	ctx := context.Background()
	count.bytes.Add(ctx, 0, count.sent)
	count.bytes.Add(ctx, 0, count.received)
	for _, at := range count.decision {
		count.attempts.Add(ctx, 0, at)
	}
}

func (c *counters) attempt(d Decision) { c.attempts.Add(context.Background(), 1, c.decision[d]) }

func (c *counters) moved(direction metric.MeasurementOption, n int) {
	if n > 0 {
		c.bytes.Add(context.Background(), int64(n), direction)
	}
}
