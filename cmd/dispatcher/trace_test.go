package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/worker"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// childVar makes this test binary a process of a fleet. Tracing is decided by
// the environment of a process, once, so these tests need processes.
const childVar = "ASSAY_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVar) {
	case "":
		testenv.Main(m)
	case "dispatcher":
		main()
	case "worker":
		if err := runWorker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// runWorker is cmd/worker with a runtime that runs nothing.
func runWorker() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	tel, err := telemetry.Start(ctx, telemetry.Config{Service: "assay-worker", Log: os.Stderr})
	if err != nil {
		return err
	}
	defer tel.Stop(context.WithoutCancel(ctx))
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: os.Getenv("ASSAY_NATS_URL"), Name: "worker"})
	if err != nil {
		return err
	}
	defer q.Close()
	objects, err := object.Open(ctx, os.Getenv("ASSAY_OBJECTS_URL"))
	if err != nil {
		return err
	}
	defer objects.Close()
	w, err := worker.New(worker.Config{ID: "w", Slots: 4}, worker.Parts{Class: q.Consumer, Control: q, Runtime: fake.Noop(), Objects: objects})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// fleet is a dispatcher and a worker, each a process.
type fleet struct {
	*client.Client
	stop func() // both, as an operator does; what they have recorded is sent by then
}

// startFleet starts both with this environment besides.
func startFleet(t *testing.T, env ...string) fleet {
	t.Helper()
	env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OTEL_") }), append(env,
		"ASSAY_LISTEN=127.0.0.1:0", "ASSAY_DATABASE_URL="+testenv.Postgres(t), "ASSAY_NATS_URL="+testenv.NATS(t),
		"ASSAY_OBJECTS_URL=file://"+filepath.Join(t.TempDir(), "objects"))...)
	log, stopDispatcher := child(t, "dispatcher", env)
	var addr string
	for lines := bufio.NewScanner(log); addr == "" && lines.Scan(); {
		var line struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &line); err == nil && line.Msg == "serving" {
			addr = line.Address
		}
	}
	_, stopWorker := child(t, "worker", env)
	c, err := client.New("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	f := fleet{c, func() { stopWorker(); stopDispatcher() }}
	await(t, "a worker is known", func() bool {
		ws, err := f.Workers(t.Context())
		return err == nil && len(ws) == 1
	})
	return f
}

// child starts a process and returns its log; stop ends it.
func child(t *testing.T, kind string, env []string) (log io.Reader, stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(env), childVar+"="+kind)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, r)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		r.Close()
	})
	t.Cleanup(stop)
	return r, stop
}

// collected is an OpenTelemetry collector that keeps what it is sent. It takes no
// metrics: those that have no place to go must not be in the way.
type collected struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]map[string]int // trace → service and span → how many
	lack  map[string]bool           // attributes that spans of jobs should have and have not
	links map[string][]string       // trace → traces that it is linked to
}

// attributesOf are those that each span of a job has, by its name.
var attributesOf = map[string][]string{
	"job":      {"assay.job", "assay.batch", "assay.tenant", "assay.pool"},
	"dispatch": {"assay.job", "assay.batch", "assay.tenant", "assay.pool"},
	"assign":   {"assay.job", "assay.tenant", "assay.pool", "assay.worker", "assay.attempt"},
	"claim":    {"assay.job", "assay.batch", "assay.tenant", "assay.pool", "assay.worker", "assay.attempt"},
	"run":      {"assay.job", "assay.tenant", "assay.pool", "assay.worker", "assay.attempt", "assay.outcome"},
	"slot":     {"assay.job", "assay.tenant", "assay.pool", "assay.worker", "assay.attempt"},
	"program":  {"assay.job", "assay.tenant", "assay.pool", "assay.worker", "assay.attempt"},
	"record":   {"assay.job", "assay.tenant", "assay.pool", "assay.worker", "assay.attempt"},
	"batch":    {"assay.batch", "assay.tenant", "assay.count"},
}

func (c *collected) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				service = strings.TrimPrefix(a.Value.GetStringValue(), "assay-")
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				id := hex.EncodeToString(s.TraceId)
				if c.spans[id] == nil {
					c.spans[id] = map[string]int{}
				}
				c.spans[id][service+" "+s.Name]++
				have := map[string]bool{}
				for _, a := range s.Attributes {
					have[a.Key] = true
				}
				for _, a := range attributesOf[s.Name] {
					if !have[a] {
						c.lack[s.Name+" "+a] = true
					}
				}
				for _, l := range s.Links {
					c.links[id] = append(c.links[id], hex.EncodeToString(l.TraceId))
				}
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// trace returns the spans of a trace.
func (c *collected) trace(id string) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans[id]
}

func startCollector(t *testing.T) (c *collected, endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &collected{spans: map[string]map[string]int{}, lack: map[string]bool{}, links: map[string][]string{}}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, c)
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Stop(); <-served })
	return c, "http://" + l.Addr().String()
}

var spec = job.Spec{Image: "python", Program: job.Program{Python: &job.Python{Code: "1"}}, Policy: json.RawMessage(`{"enforce":"report"}`)}

// traced returns ctx within a trace of the client's own.
func traced(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

const (
	clientTrace  = "0af7651916cd43dd8448eb211c80319c"
	clientParent = "00-" + clientTrace + "-b7ad6b7169203331-01"
)

// TestOneTrace: every step of a job, in both processes, is part of one trace: that of
// the request for a job by itself, and for one of a batch a trace of its own, linked to
// that of the request, in which the whole batch is one span.
func TestOneTrace(t *testing.T) {
	c, endpoint := startCollector(t)
	f := startFleet(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint)
	await(t, "there is a worker to be assigned a job", func() bool {
		ws, err := f.Workers(t.Context())
		return err == nil && len(ws) == 1
	})
	run, err := f.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.SubmitSpecs(traced(t.Context(), clientParent), client.BatchOptions{}, slices.Values([]job.Spec{spec, spec, spec}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the batch is done", func() bool {
		b, err := f.Batch(t.Context(), b.ID, 0)
		return err == nil && b.Done()
	})
	traces := map[string]bool{}
	for raw, err := range f.Results(t.Context(), b.ID, false) {
		if err != nil {
			t.Fatal(err)
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		traces[r.TraceID] = true
	}
	f.stop()
	if len(traces) != 3 || traces[clientTrace] {
		t.Errorf("the jobs of a batch have the traces %v, want one each", traces)
	}
	steps := func(trace string, want map[string]int) {
		t.Helper()
		if got := c.trace(trace); !maps.Equal(got, want) {
			t.Errorf("trace %q has %v, want %v", trace, got, want)
		}
	}
	steps(run.TraceID, map[string]int{"dispatcher POST /v1/run": 1, "dispatcher assign": 1, "dispatcher record": 1,
		"worker run": 1, "worker slot": 1, "worker program": 1})
	steps(clientTrace, map[string]int{"dispatcher POST /v1/batches": 1, "dispatcher batch": 1})
	for trace := range traces {
		steps(trace, map[string]int{"dispatcher job": 1, "dispatcher dispatch": 1, "dispatcher claim": 1, "dispatcher record": 1,
			"worker run": 1, "worker slot": 1, "worker program": 1})
		if !slices.Equal(c.links[trace], []string{clientTrace}) {
			t.Errorf("trace %s is linked to %v", trace, c.links[trace])
		}
	}
	if len(c.lack) > 0 {
		t.Errorf("spans lack %v", slices.Sorted(maps.Keys(c.lack)))
	}
}

// TestNoTrace: without a collector a job has a trace only if its client began
// one.
func TestNoTrace(t *testing.T) {
	f := startFleet(t)
	for _, test := range []struct{ parent, want string }{{"", ""}, {clientParent, clientTrace}} {
		r, err := f.Run(traced(t.Context(), test.parent), spec)
		if err != nil {
			t.Fatal(err)
		}
		if r.TraceID != test.want {
			t.Errorf("with traceparent %q the result's trace is %q, want %q", test.parent, r.TraceID, test.want)
		}
	}
}
