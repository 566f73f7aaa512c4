// Package telemetry sets up traces, metrics and logs for one process.
//
// It is the only place that knows exporters; everything else speaks the
// OpenTelemetry API and slog. Metrics are always served at /metrics. Traces, and
// the same metrics once more, are sent by OTLP if the environment says so, in the
// variables that the OpenTelemetry specification defines; export.go has them.
// Otherwise the tracer is the API's no-op, which costs nothing.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// stopTime bounds what a process that stops waits for a collector: one that is
	// away must not keep it.
	stopTime = 5 * time.Second
	// spanQueue is how many spans may wait for the collector, unless
	// OTEL_BSP_MAX_QUEUE_SIZE says otherwise. The SDK's own 2048 is less than what
	// the acceptance of one large batch makes in a moment; what finds the queue full
	// is dropped. A span takes one or two kilobytes.
	spanQueue = 16384
)

// Config names the process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are
// stronger than it.
type Config struct {
	Service string // such as assay-dispatcher
	Version string
	// Instance tells two processes of one service apart; optional.
	Instance string
	// Log is where log lines go, as JSON; nil: nowhere, slog is left alone.
	Log   io.Writer
	Level slog.Level
}

// Telemetry is what a process has to serve and to close.
type Telemetry struct {
	metrics http.Handler
	stops   []func(context.Context) error
}

// Start installs the process-wide tracer and meter providers, the W3C
// propagator and the default logger. The error names the variable of the
// environment that is at fault.
func Start(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.Log != nil {
		slog.SetDefault(slog.New(WithTrace(slog.NewJSONHandler(cfg.Log, &slog.HandlerOptions{Level: cfg.Level}))))
	}
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		slog.WarnContext(ctx, "telemetry failed", "error", err)
	}))
	t := &Telemetry{}
	res, err := cfg.resource(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.startMetrics(ctx, res); err != nil {
		return nil, fmt.Errorf("start metrics: %w", err)
	}
	if err := t.startTraces(ctx, res); err != nil {
		return nil, fmt.Errorf("start traces: %w", err)
	}
	return t, nil
}

// resource is what all that this process tells is about.
func (c Config) resource(ctx context.Context) (*resource.Resource, error) {
	attrs := []attribute.KeyValue{
		attribute.String("service.name", c.Service),
		attribute.String("service.version", c.Version),
	}
	if c.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", c.Instance))
	}
	res, err := resource.New(ctx, resource.WithAttributes(attrs...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return res, nil
}

func (t *Telemetry) startMetrics(ctx context.Context, res *resource.Resource) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(exporter), sdkmetric.WithResource(res)}
	sent, err := metricExporter(ctx)
	if err != nil {
		return err
	}
	if sent != nil {
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(sent)))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	otel.SetMeterProvider(provider)
	t.stops = append(t.stops, provider.Shutdown)
	t.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return nil
}

// startTraces leaves the sampler to the SDK, which reads OTEL_TRACES_SAMPLER.
func (t *Telemetry) startTraces(ctx context.Context, res *resource.Resource) error {
	exporter, err := spanExporter(ctx)
	if err != nil || exporter == nil {
		return err
	}
	var options []sdktrace.BatchSpanProcessorOption
	if os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
		options = append(options, sdktrace.WithMaxQueueSize(spanQueue))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSpanProcessor(Describer{}),
		sdktrace.WithBatcher(exporter, options...))
	otel.SetTracerProvider(provider)
	t.stops = append(t.stops, provider.Shutdown)
	return nil
}

// Metrics answers GET /metrics in the Prometheus text format.
func (t *Telemetry) Metrics() http.Handler { return t.metrics }

// Stop sends what has not been sent yet, as far as that takes no more than a few
// seconds. What is lost is logged: a process whose collector is away has not failed.
func (t *Telemetry) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var all sync.WaitGroup
	for _, stop := range t.stops {
		all.Go(func() {
			if err := stop(ctx); err != nil {
				slog.WarnContext(ctx, "telemetry not sent", "error", err)
			}
		})
	}
	all.Wait()
}
