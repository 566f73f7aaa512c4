package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The variables of the OpenTelemetry specification select the exporters. Three are read here:
// OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER (or OTEL_METRICS_EXPORTER), and
// OTEL_EXPORTER_OTLP_PROTOCOL (or its form for one signal). The exporters and the SDK read the
// others: endpoints, headers, certificates, timeouts, compression, samplers, limits.
//
// The contrib module "autoexport" does the same, but is not used. Without any variables it sends to
// localhost, and a fleet must not send anything that its operator did not request. Its default
// protocol differs from the one of existing deployments. It also adds exporters for logs, consoles
// and Zipkin, and a Prometheus server that could not be reached here.

const (
	grpcProtocol = "grpc" // the default
	httpProtocol = "http/protobuf"
)

// spanExporter returns the exporter of traces, or nil if traces are not exported.
func spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol, err := protocolOf("TRACES")
	switch {
	case err != nil || protocol == "":
		return nil, err
	case protocol == httpProtocol:
		return otlptracehttp.New(ctx)
	}
	return otlptracegrpc.New(ctx)
}

// metricExporter returns the exporter of metrics, or nil if metrics are only served.
func metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	protocol, err := protocolOf("METRICS")
	switch {
	case err != nil || protocol == "":
		return nil, err
	case protocol == httpProtocol:
		return otlpmetrichttp.New(ctx)
	}
	return otlpmetricgrpc.New(ctx)
}

// protocolOf returns the protocol of a signal, or "" if the signal is not exported.
func protocolOf(signal string) (string, error) {
	if sends, err := sends(signal); err != nil || !sends {
		return "", err
	}
	name := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	if os.Getenv(name) == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(os.Getenv(name), grpcProtocol); protocol {
	case grpcProtocol, httpProtocol:
		return protocol, nil
	default:
		return "", fmt.Errorf("%s: %q is neither %s nor %s", name, protocol, grpcProtocol, httpProtocol)
	}
}

// sends reports whether a signal is exported: it has an endpoint or a named exporter, and it is not
// disabled.
func sends(signal string) (bool, error) {
	if off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); off {
		return false, nil
	}
	named := "OTEL_" + signal + "_EXPORTER"
	wanted := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	text := os.Getenv(named)
	if text == "" {
		return wanted, nil
	}
	otlp := false
	for _, exporter := range strings.Split(text, ",") {
		switch exporter = strings.TrimSpace(exporter); {
		case exporter == "otlp":
			otlp = true
		case exporter == "none", exporter == "prometheus" && signal == "METRICS": // served at /metrics anyway
		default:
			return false, fmt.Errorf("%s: %q is neither otlp nor none", named, exporter)
		}
	}
	return otlp, nil
}
