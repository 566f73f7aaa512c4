package worker

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
)

const (
	// tenantsMost bounds the tenants that have series of their own. Later tenants share one.
	tenantsMost  = 100
	otherTenants = "_other"
)

// byTenant counts the attempts and run time of each tenant.
type byTenant struct {
	jobs metric.Int64Counter
	time metric.Float64Counter

	labels sync.Map // tenant and outcome → metric.MeasurementOption, cached
	mu     sync.Mutex
	known  map[string]bool
}

func newByTenant(meter metric.Meter, b *builder) *byTenant {
	t := &byTenant{known: map[string]bool{}}
	var err error
	t.jobs, err = meter.Int64Counter("assay_tenant_attempts", metric.WithDescription("Attempts ended, by tenant and outcome; only the first 100 tenants have their own label."))
	b.note(err)
	t.time, err = meter.Float64Counter("assay_tenant_run_seconds", metric.WithDescription("Run time of user code, by tenant; only the first 100 tenants have their own label."))
	b.note(err)
	return t
}

// name returns the label value of a tenant.
func (t *byTenant) name(tenant string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known[tenant] {
		if len(t.known) >= tenantsMost {
			return otherTenants
		}
		t.known[tenant] = true
	}
	return tenant
}

func (t *byTenant) label(name string, o job.Outcome) metric.MeasurementOption {
	key := [2]string{name, string(o)}
	if at, ok := t.labels.Load(key); ok {
		return at.(metric.MeasurementOption)
	}
	at := metric.WithAttributeSet(attribute.NewSet(attribute.String("tenant", name), attribute.String("outcome", string(o))))
	t.labels.Store(key, at)
	return at
}

// countAttempt counts an attempt that has an outcome.
func (m *metrics) countAttempt(ctx context.Context, tenant string, o job.Outcome, ms float64) {
	name := m.tenants.name(tenant)
	m.tenants.jobs.Add(ctx, 1, m.tenants.label(name, o))
	m.tenants.time.Add(ctx, ms/1000, m.one("tenant", name))
}

// countArtifact counts a stored artifact.
func (m *metrics) countArtifact(ctx context.Context, bytes int64) {
	m.artifacts.Add(ctx, 1)
	m.artifactBytes.Add(ctx, bytes)
}

// zero creates the counters at zero: a counter that starts at its first event has no rate.
func (m *metrics) zero() {
	ctx := context.Background()
	m.artifacts.Add(ctx, 0)
	m.artifactBytes.Add(ctx, 0)
	m.claimed(ctx, 0, 0)
	m.fenced(ctx, 0)
	m.fences.Add(ctx, 0, m.one("when", "reporting"))
	for _, r := range []job.Reason{job.ReasonInfra, job.ReasonDrained, job.ReasonPreempted} {
		m.back.Add(ctx, 0, m.one("reason", string(r)))
	}
}
