// Package telemetry sets up traces, metrics and logs for one process.
//
// Only this package uses exporters; all other code uses the OpenTelemetry API and slog. Metrics are always served at
// /metrics. Traces and metrics are also exported by OTLP if the variables of the OpenTelemetry specification request
// it; see export.go. Otherwise the tracer is the API's no-op, which costs nothing.
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
	// stopTime limits how long a stopping process waits for a collector. A collector that is not
	// available must not block it.
	stopTime = 5 * time.Second
	// spanQueue is the default number of spans that may wait for the collector;
	// OTEL_BSP_MAX_QUEUE_SIZE overrides it. One large batch creates more spans in a moment than the
	// SDK's default of 2048. A full queue drops spans. A span takes one or two kilobytes.
	spanQueue = 16384
)

// Config identifies the process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it.
type Config struct {
	Service string // such as assay-dispatcher
	Version string
	// Instance distinguishes processes of one service; optional.
	Instance string
	// Log receives the log lines as JSON. With nil, slog is not changed.
	Log   io.Writer
	Level slog.Level
}

// Telemetry holds the metrics handler and the providers to stop.
type Telemetry struct {
	metrics http.Handler
	stops   []func(context.Context) error
}

// Start installs the process-wide tracer and meter providers, the W3C propagator and the default
// logger. The error names the faulty environment variable.
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

// resource returns the resource of all signals of this process.
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

// Stop exports the remaining data, within a few seconds. Lost data is only logged: a process whose
// collector is not available has not failed.
func (t *Telemetry) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var all sync.WaitGroup
	for _, stop := range t.stops {
		all.Go(func() {
			if err := stop(ctx); err != nil {
				slog.WarnContext(ctx, "telemetry not exported", "error", err)
			}
		})
	}
	all.Wait()
}
