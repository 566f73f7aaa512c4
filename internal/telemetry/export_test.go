package telemetry

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// received is the data at a collector, by "traces service.name=…" and the like.
type received struct {
	mu  sync.Mutex
	got map[string]bool
}

func (r *received) add(signal, token string, res *resourcepb.Resource, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[signal+" token="+token] = true
	r.got[signal+" "+name] = true
	for _, a := range res.GetAttributes() {
		r.got[signal+" "+a.Key+"="+a.Value.GetStringValue()] = true
	}
}

func (r *received) traces(token string, in *traces.ExportTraceServiceRequest) {
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				r.add("traces", token, rs.Resource, s.Name)
			}
		}
	}
}

func (r *received) metrics(token string, in *metrics.ExportMetricsServiceRequest) {
	for _, rm := range in.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				r.add("metrics", token, rm.Resource, m.Name)
			}
		}
	}
}

func (r *received) lacks(want ...string) (lacks []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range want {
		if !r.got[w] {
			lacks = append(lacks, w)
		}
	}
	return lacks
}

type traceServer struct {
	traces.UnimplementedTraceServiceServer
	*received
}

type metricServer struct {
	metrics.UnimplementedMetricsServiceServer
	*received
}

func tokenOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("x-token"), ",")
}

func (s traceServer) Export(ctx context.Context, in *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	s.received.traces(tokenOf(ctx), in)
	return &traces.ExportTraceServiceResponse{}, nil
}

func (s metricServer) Export(ctx context.Context, in *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	s.received.metrics(tokenOf(ctx), in)
	return &metrics.ExportMetricsServiceResponse{}, nil
}

// receive starts a collector for one of the protocols.
func receive(t *testing.T, protocol string) (*received, string) {
	t.Helper()
	r := &received{got: map[string]bool{}}
	if protocol == httpProtocol {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
			body, err := io.ReadAll(rq.Body)
			if err != nil {
				t.Error(err)
			}
			var in1 traces.ExportTraceServiceRequest
			var in2 metrics.ExportMetricsServiceRequest
			switch {
			case rq.URL.Path == "/v1/traces" && proto.Unmarshal(body, &in1) == nil:
				r.traces(rq.Header.Get("x-token"), &in1)
			case rq.URL.Path == "/v1/metrics" && proto.Unmarshal(body, &in2) == nil:
				r.metrics(rq.Header.Get("x-token"), &in2)
			default:
				http.Error(w, rq.URL.Path, http.StatusBadRequest)
			}
		}))
		t.Cleanup(srv.Close)
		return r, srv.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	traces.RegisterTraceServiceServer(srv, traceServer{received: r})
	metrics.RegisterMetricsServiceServer(srv, metricServer{received: r})
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Stop(); <-served })
	return r, "http://" + l.Addr().String()
}

// noOTEL removes the OpenTelemetry variables from the environment of the tests.
func noOTEL(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
}

// something runs a process that creates a span, counts, and stops.
func something(t *testing.T) {
	t.Helper()
	tel, err := Start(t.Context(), Config{Service: "assay-test", Version: "7", Instance: "i"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "thing")
	span.End()
	c, err := otel.Meter("test").Int64Counter("assay_things")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 1)
	tel.Stop(context.WithoutCancel(t.Context()))
}

// TestExport checks that both signals arrive by both protocols, as the standard variables request.
func TestExport(t *testing.T) {
	for _, protocol := range []string{"", grpcProtocol, httpProtocol} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			noOTEL(t)
			r, url := receive(t, protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=s3cret")
			t.Setenv("OTEL_SERVICE_NAME", "mine")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
			something(t)
			for _, signal := range []string{"traces", "metrics"} {
				if l := r.lacks(signal+" token=s3cret", signal+" service.name=mine", signal+" service.version=7",
					signal+" service.instance.id=i", signal+" deployment.environment.name=lab"); l != nil {
					t.Errorf("there is no %q in %v", l, r.got)
				}
			}
			if l := r.lacks("traces thing", "metrics assay_things"); l != nil {
				t.Errorf("there is no %q in %v", l, r.got)
			}
		})
	}
}

// TestExportOfOneSignal checks that each signal goes to its own collector.
func TestExportOfOneSignal(t *testing.T) {
	noOTEL(t)
	byHTTP, url := receive(t, httpProtocol)
	byGRPC, other := receive(t, grpcProtocol)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", httpProtocol)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", other)
	something(t)
	if byHTTP.lacks("traces thing") != nil || byHTTP.lacks("metrics assay_things") == nil {
		t.Errorf("the collector of traces has %v", byHTTP.got)
	}
	if byGRPC.lacks("metrics assay_things") != nil || byGRPC.lacks("traces thing") == nil {
		t.Errorf("the collector of metrics has %v", byGRPC.got)
	}
}

// TestNothingIsSent checks that no data is sent by default, or if a variable forbids it.
func TestNothingIsSent(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"disabled":  {"OTEL_SDK_DISABLED": "true"},
		"none":      {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "prometheus"},
		"all of it": {"OTEL_TRACES_SAMPLER": "always_off", "OTEL_METRICS_EXPORTER": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			noOTEL(t)
			r, url := receive(t, grpcProtocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			for k, v := range env {
				t.Setenv(k, v)
			}
			something(t)
			if r.lacks("traces thing") == nil || r.lacks("metrics assay_things") == nil {
				t.Errorf("sent %v", r.got)
			}
		})
	}
}

// TestWrongVariable checks that the error names the variable.
func TestWrongVariable(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "x",
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "console", "OTEL_RESOURCE_ATTRIBUTES": "a,b",
	} {
		t.Run(name, func(t *testing.T) {
			noOTEL(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			if _, err := Start(t.Context(), Config{Service: "assay-test"}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		})
	}
}
