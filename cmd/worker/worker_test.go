package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// dispatcher answers heartbeats; nothing else is asked without jobs.
type dispatcher struct {
	control.Handler
	seen chan control.WorkerInfo
}

func (d *dispatcher) HandleHeartbeat(_ context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	select {
	case d.seen <- r.Worker:
	default:
	}
	return control.HeartbeatReply{TTL: job.Duration(30 * time.Second)}, nil
}

// idle is run with a runtime that runs nothing.
func idle(ctx context.Context, args ...string) error {
	cfg, err := parse(args, io.Discard)
	if err != nil {
		return err
	}
	cfg.standIn = fake.Noop()
	return work(ctx, cfg, io.Discard)
}

func TestRunUntilToldToStop(t *testing.T) {
	url, dir, addr := testenv.NATS(t), t.TempDir(), testenv.Address(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- idle(ctx, "--nats-url="+url, "--objects-url=file://"+filepath.Join(dir, "objects"),
			"--state-dir="+filepath.Join(dir, "state"), "--metrics-listen="+addr, "--worker-id=w7", "--pool=gpu")
	}()
	await(t, "healthy", func() bool { return status(addr, "/healthz") == http.StatusOK })
	if got := status(addr, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("ready without a dispatcher: %d", got)
	}
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: url, Name: "dispatcher"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	d := &dispatcher{seen: make(chan control.WorkerInfo, 1)}
	served := make(chan error, 1)
	go func() { served <- q.Serve(ctx, d) }()
	await(t, "ready", func() bool { return status(addr, "/readyz") == http.StatusOK })
	if got := status(addr, "/metrics"); got != http.StatusOK {
		t.Errorf("metrics: %d", got)
	}
	if info := <-d.seen; info.ID != "w7" || info.Pool != "gpu" || info.Slots != 512 {
		t.Errorf("worker = %+v", info)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Who restarts what is not healthy leaves a worker alone that only takes its time,
// here for a NATS server that is not there yet.
func TestHealthyWhileItStarts(t *testing.T) {
	dir, addr := t.TempDir(), testenv.Address(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- idle(ctx, "--nats-url=nats://"+testenv.Address(t), "--objects-url=file://"+filepath.Join(dir, "objects"),
			"--state-dir="+filepath.Join(dir, "state"), "--metrics-listen="+addr)
	}()
	await(t, "healthy", func() bool { return status(addr, "/healthz") == http.StatusOK })
	if got := status(addr, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("ready while it starts: %d", got)
	}
	stop()
	if err := <-done; err == nil {
		t.Error("it ran without a NATS server")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestCanaryImage(t *testing.T) {
	for want, args := range map[string][]string{
		"python": nil, "a/b:1": {"--images=a/b:1,c"},
	} {
		c, err := parse(append(args, "--worker-id=w"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.canaryImage(); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

func status(addr, path string) int {
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never %s", what)
		}
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	for flag, says := range map[string]string{
		"--slots=-1":               "--slots",
		"--slots=many":             "--slots",
		"--cpu=-2":                 "--cpu",
		"--grace=-1s":              "--grace",
		"--runtimes=kata=x":        "neither gvisor nor vm",
		"--runtimes=vm=":           "has no value",
		"--pip-index=ftp://x":      "--pip-index",
		"--image-registries=a/b=c": "--image-registries",
		"--no-such-flag":           "no-such-flag",
		"--log-level=loud":         "--log-level",
		"--objects-url=ftp://x/":   "file:///",
	} {
		if err := run(t.Context(), []string{flag}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that names %s", flag, err, says)
		}
	}
}

func TestIndexAndRegistries(t *testing.T) {
	c, err := parse([]string{"--worker-id=w"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.index(); !reflect.DeepEqual(got, environment.PyPI) {
		t.Errorf("the index is %+v by default", got)
	}
	c, err = parse([]string{"--worker-id=w", "--pip-index=http://10.0.0.1:8080/simple", "--image-registries=docker.io/library,docker.io=mirror.example.com/hub,http://10.0.0.5:5000,docker.io=http://10.0.0.6"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.index(); got.URL != "http://10.0.0.1:8080/simple" || len(got.Allow) != 0 {
		t.Errorf("the index is %+v", got)
	}
	if s := c.sources; !slices.Equal(s.Registries, []string{"docker.io/library", "http://10.0.0.5:5000"}) || !slices.Equal(s.Mirrors, []string{"docker.io=mirror.example.com/hub", "docker.io=http://10.0.0.6"}) {
		t.Errorf("sources %+v", s)
	}
}

func TestRuntimes(t *testing.T) {
	for arg, want := range map[string][2]string{
		"--runtimes=gvisor=none": {"", ""}, "--runtimes=gvisor=/x/runsc": {"/x/runsc", ""}, "--runtimes=gvisor=/x,vm=io.containerd.kata.v2": {"/x", "io.containerd.kata.v2"},
		"--runtimes=vm=kata": {findRunsc(), "kata"}, "--runtimes=gvisor=none,vm=none": {"", ""},
	} {
		c, err := parse([]string{"--worker-id=w", arg}, io.Discard)
		if got := [2]string{c.runsc, c.vmRuntime}; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", arg, got, err, want)
		}
	}
}

func TestCapacityOfAHost(t *testing.T) {
	host := policy.Host{Cores: 4, Memory: 10 * job.GiB}
	c, err := parse([]string{"--worker-id=w"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if w, err := c.worker(host); err != nil || w.Slots != 32 || w.CPU != 16 || w.Memory != 8*job.GiB || w.Sessions.Memory != 64*job.GiB || w.Sessions.Places != 1024 {
		t.Errorf("defaults = %+v, %v", w, err)
	}
	c.Memory, c.CPU, c.Slots = "1Gi", 2.5, 3
	if w, err := c.worker(host); err != nil || w.Slots != 3 || w.CPU != 2.5 || w.Memory != job.GiB {
		t.Errorf("as told = %+v, %v", w, err)
	}
	c.Memory = "256Gi"
	if w, err := c.worker(host); err != nil || w.Sessions.Memory != 2048*job.GiB || w.Sessions.Places != 4096 {
		t.Errorf("sessions as told = %+v, %v", w.Sessions, err)
	}
	c.Memory = "lots"
	if _, err := c.worker(host); err == nil || !strings.Contains(err.Error(), "--memory") {
		t.Errorf("bad memory: %v", err)
	}
}
