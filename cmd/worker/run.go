package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/site"
	"github.com/assay-run/assay/internal/sysmon"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/version"
	"github.com/assay-run/assay/internal/worker"
	"github.com/assay-run/assay/internal/worker/awake"
	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd"
	"github.com/assay-run/assay/pkg/runtime/environment"
)

const (
	connectTimeout = 30 * time.Second // to wait for NATS at start, because components start in any order
	closeTimeout   = 30 * time.Second // to clean up this host
)

// run wires a worker and runs it until ctx ends. It stops in the order that loses nothing: the
// worker drains, then the sandboxes end, the connections last.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	cfg, err := parse(args, stdout)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return work(ctx, cfg, stderr)
}

// work runs the worker with a parsed configuration.
func work(ctx context.Context, cfg config, stderr io.Writer) (err error) {
	leaveCoresToJobs()
	sysmon.RelaxTimer()
	tel, err := telemetry.Start(ctx, telemetry.Config{Service: "assay-worker", Version: version.String(), Instance: cfg.ID, Log: stderr, Level: cfg.LogLevel})
	if err != nil {
		return err
	}
	defer tel.Stop(context.WithoutCancel(ctx))
	// Before slow steps such as the import of images: a liveness probe must not restart a worker that
	// is only not ready.
	ready := &readiness{}
	stop, err := serve(ctx, cfg.MetricsListen, ready, tel.Metrics())
	if err != nil {
		return err
	}
	defer join(&err, stop)
	objects, err := object.Open(ctx, cfg.ObjectsURL)
	if err != nil {
		return err
	}
	defer join(&err, objects.Close)

	q, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer q.Close()
	stopOwn, err := cfg.ownContainerd(ctx)
	if err != nil {
		return err
	}
	defer join(&err, closing(ctx, stopOwn))
	rt, err := openRuntime(ctx, cfg, &transfer.Environments{Worker: cfg.ID, Control: q, Objects: objects})
	if err != nil {
		return err
	}
	defer join(&err, closing(ctx, rt.Close))

	keeper := cfg.awake(ctx)
	defer join(&err, keeper.Close)

	own, err := cfg.worker(rt.Host())
	if err != nil {
		return err
	}
	parts, err := unreliable(worker.Parts{Class: q.Consumer, Control: q, Runtime: rt, Objects: objects, Sessions: q, Awake: keeper})
	if err != nil {
		return err
	}
	w, err := worker.New(own, parts)
	if err != nil {
		return err
	}
	ready.of(w)
	slog.InfoContext(ctx, "worker started", "worker", own.ID, "pool", own.Pool, "slots", own.Slots, "cpu", own.CPU, "memory", own.Memory)
	return w.Run(ctx)
}

// join adds the error of a close function to a function's returned error.
func join(err *error, f func() error) { *err = errors.Join(*err, f()) }

// closing gives f a time limit of its own, because ctx has ended by then.
func closing(ctx context.Context, f func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return f(ctx)
	}
}

func connect(ctx context.Context, cfg config) (*jetstream.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return jetstream.Connect(ctx, jetstream.Config{URL: cfg.NATSURL, Files: cfg.NATS, Name: "worker " + cfg.ID, Worker: &cfg.identity, Log: slog.Default()})
}

func openRuntime(ctx context.Context, cfg config, shared environment.Shared) (runtime.Runtime, error) {
	if cfg.standIn != nil {
		return cfg.standIn, nil
	}
	guest, err := guest()
	if err != nil {
		return nil, err
	}
	c := containerd.DefaultConfig()
	c.Address, c.Namespace, c.StateDir, c.Guest, c.ImageArchives, c.WorkerID = cfg.Containerd, cfg.Namespace, cfg.StateDir, guest, cfg.ImageArchives, cfg.ID
	c.Index, c.Environments, c.Shared = cfg.index(), cfg.Environments, shared
	c.ImageRegistries, c.ImageMirrors, c.TrustedImages, c.ImageAlways = cfg.sources.Registries, cfg.sources.Mirrors, cfg.sources.Trusted, cfg.sources.Always
	c.ImageCredentials = cfg.ImageCredentials
	c.Runsc, c.VMRuntime = cfg.runsc, cfg.vmRuntime
	c.Egress = cfg.egress()
	for _, s := range []struct {
		flag, text string
		into       *job.Size
	}{
		{"--image-space", cfg.ImageSpace, &c.ImagesMost},
		{"--environment-space", cfg.EnvironmentSpace, &c.EnvironmentsMost},
	} {
		if *s.into, err = job.ParseSize(s.text); err != nil || *s.into == 0 {
			return nil, fmt.Errorf("%s: %q is not a size such as 8Gi", s.flag, s.text)
		}
	}
	c.ImageSize = c.ImagesMost / 5
	c.EnvironmentSize = containerd.EnvironmentSize(c.EnvironmentsMost)
	if c.Holes, err = knownHoles(ctx, cfg); err != nil {
		return nil, err
	}
	if cfg.Slots > 0 {
		c.Jobs = cfg.Slots
	}
	if cfg.WarmMemory != "" {
		if c.WarmMemory, err = job.ParseSize(cfg.WarmMemory); err != nil {
			return nil, fmt.Errorf("--warm-memory: %w", err)
		}
	}
	if cfg.PreloadMemory != "" {
		if c.PreloadMemory, err = job.ParseSize(cfg.PreloadMemory); err != nil {
			return nil, fmt.Errorf("--preload-memory: %w", err)
		}
	}
	return containerd.New(ctx, c)
}

// awakeFor is how long idle processors poll for work instead of sleeping, after each step that a
// client waits for. It costs power. Shorter times performed worse; 4 ms or more made no difference
// (docs/performance.md).
const awakeFor = 4 * time.Millisecond

// awake returns the keeper of this host's processors, or nil.
func (c *config) awake(ctx context.Context) *awake.Keeper {
	if c.standIn != nil {
		return nil
	}
	keeper, err := awake.Open(awake.Device, awakeFor)
	if err != nil { // the container has no such device, or the kernel lacks it
		slog.InfoContext(ctx, "processors not kept awake for synchronous requests", "error", err)
	}
	return keeper
}

// readiness reports whether jobs are taken. During the start there is no worker yet.
type readiness struct{ worker atomic.Pointer[worker.Worker] }

func (r *readiness) of(w *worker.Worker) { r.worker.Store(w) }

// Ready returns nil if the worker takes jobs, otherwise the reason.
func (r *readiness) Ready() error {
	if w := r.worker.Load(); w != nil {
		return w.Ready()
	}
	return errors.New("the worker is starting: connecting, or importing images")
}

// serve serves the worker's health checks and metrics until stop.
func serve(ctx context.Context, addr string, w *readiness, metrics http.Handler) (stop func() error, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "ok\n") })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if err := w.Ready(); err != nil {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(rw, "ok\n")
	})
	bound, _ := l.Addr().(*net.TCPAddr)
	guard := site.Guard{Local: bound != nil && bound.IP.IsLoopback()}
	srv := &http.Server{Handler: guard.Wrap(mux), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	slog.InfoContext(ctx, "serving metrics", "address", l.Addr().String())
	return func() error {
		if err := srv.Close(); err != nil {
			return err
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}
