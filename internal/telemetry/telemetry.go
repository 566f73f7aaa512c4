// Package telemetry sets up traces, metrics and logs for one process.
//
// It is the only place that knows exporters; everything else speaks the
// OpenTelemetry API and slog. Traces are exported only if the environment names
// a collector (OTEL_EXPORTER_OTLP_ENDPOINT, as the OpenTelemetry SDK defines
// it); otherwise the tracer is the API's no-op, which costs nothing. Metrics are
// pulled from /metrics.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Config names the process.
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
// propagator and the default logger.
func Start(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.Log != nil {
		slog.SetDefault(slog.New(WithTrace(slog.NewJSONHandler(cfg.Log, &slog.HandlerOptions{Level: cfg.Level}))))
	}
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t := &Telemetry{}
	res := cfg.resource()
	if err := t.startMetrics(res); err != nil {
		return nil, fmt.Errorf("start metrics: %w", err)
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return t, nil
	}
	exporter, err := otlptracegrpc.New(ctx) // reads the rest of OTEL_* itself
	if err != nil {
		return nil, fmt.Errorf("start trace exporter: %w", err)
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	otel.SetTracerProvider(traces)
	t.stops = append(t.stops, traces.Shutdown)
	return t, nil
}

func (c Config) resource() *resource.Resource {
	attrs := []attribute.KeyValue{
		attribute.String("service.name", c.Service),
		attribute.String("service.version", c.Version),
	}
	if c.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", c.Instance))
	}
	return resource.NewSchemaless(attrs...)
}

func (t *Telemetry) startMetrics(res *resource.Resource) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(res))
	otel.SetMeterProvider(provider)
	t.stops = append(t.stops, provider.Shutdown)
	t.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return nil
}

// Metrics answers GET /metrics in the Prometheus text format.
func (t *Telemetry) Metrics() http.Handler { return t.metrics }

// Stop sends what has not been sent yet.
func (t *Telemetry) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stops {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
