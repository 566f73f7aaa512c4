package worker

import (
	"encoding/base64"
	"maps"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// The steps of an attempt are spans below its own span. All of them name its tenant.
func TestWhatAnAttemptConsistsOf(t *testing.T) {
	spans, before := tracetest.NewSpanRecorder(), otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(telemetry.Describer{}), sdktrace.WithSpanProcessor(spans)))
	defer otel.SetTracerProvider(before)
	batch := job.NewID()
	var id job.ID
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		b.until("it is known", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.beats) > 0 })
		text := base64.StdEncoding.EncodeToString([]byte("in"))
		spec := script("sleep=1s artifact=/workspace/x:out")
		spec.Files = map[string]job.File{"/workspace/a": {Base64: &text}}
		var err error
		id, err = b.assign(t, spec, func(a *control.Assignment) {
			a.Claimed.TraceParent, a.Claimed.BatchID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", batch
		})
		if err != nil {
			t.Fatal(err)
		}
		b.until("it is recorded", func() bool { return b.row(id).recorded == 1 && len(b.w.leases.all()) == 0 })
	})
	ended := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range spans.Ended() {
		ended[s.Name()] = s
	}
	run := ended["run"]
	if run == nil {
		t.Fatalf("spans %v", ended)
	}
	for _, name := range []string{"run", "fetch", "slot", "program", "collect"} {
		s := ended[name]
		if s == nil {
			t.Errorf("no span %s", name)
			continue
		}
		if name != "run" && s.Parent().SpanID() != run.SpanContext().SpanID() {
			t.Errorf("%s is not below run", name)
		}
		if s.StartTime().Before(run.StartTime()) || s.EndTime().After(run.EndTime()) {
			t.Errorf("%s is from %v to %v, run from %v to %v", name, s.StartTime(), s.EndTime(), run.StartTime(), run.EndTime())
		}
		have := map[string]string{}
		for _, a := range s.Attributes() {
			switch a.Key {
			case telemetry.JobKey, telemetry.BatchKey, telemetry.TenantKey, telemetry.PoolKey, telemetry.WorkerKey, telemetry.AttemptKey:
				have[string(a.Key)] = a.Value.String()
			}
		}
		if want := map[string]string{"assay.job": string(id), "assay.batch": string(batch), "assay.tenant": "acme", "assay.pool": "default",
			"assay.worker": "w1", "assay.attempt": "1"}; !maps.Equal(have, want) {
			t.Errorf("%s has %v, want %v", name, have, want)
		}
	}
	if d := ended["program"].EndTime().Sub(ended["program"].StartTime()); d < 1e9 {
		t.Errorf("the program took %v, want a second at least", d)
	}
}
