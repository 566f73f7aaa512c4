package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/assay-run/assay/internal/daemon"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/store"
)

// FleetConfig describes a whole fleet on this machine. Dir and BinDir are required.
type FleetConfig struct {
	// Dir is the data directory, with all data of the fleet.
	Dir string
	// Listen is the API's address; port 0 takes a free one.
	Listen string
	// BinDir holds dispatcher, worker and guest. For noop it also holds faults/worker, built with the
	// tag faults.
	BinDir string
	// ImageArchives are OCI archives that the worker imports.
	ImageArchives []string
	// ImageCache is where the default image is built and kept if there are no ImageArchives. Empty:
	// it is not built.
	ImageCache string
	// Runtime is containerd (default), or noop: no isolation and no containerd.
	Runtime string
	// Env is added to the environment of dispatcher and worker, as NAME=value. It overrides other
	// values.
	Env []string
	// Verbose copies the log of every process to Stderr.
	Verbose bool
	Stderr  io.Writer
	Log     *slog.Logger
}

// Fleet is a running fleet.
type Fleet struct {
	cfg    FleetConfig
	url    string
	lock   *Lock
	key    *identity.Key                 // of the workers
	token  string                        // of our own operator; empty: no token is necessary
	stops  []func(context.Context) error // in the order of starting
	failed chan error                    // reports the end of a component that is not restarted
	wg     sync.WaitGroup                // watchers of components
	quit   chan struct{}                 // closed when stopping begins
	once   sync.Once
	err    error
}

// The worker of a fleet on one machine.
const (
	devWorker = "dev"
	devPool   = "default"
)

// Time limits of a fleet.
const (
	startPatience  = 2 * time.Minute  // from the first component to the first registered worker
	workerPatience = 30 * time.Second // to finish or return its jobs
	childPatience  = 15 * time.Second
)

// StartFleet starts Postgres, NATS, containerd, a dispatcher and a worker. It returns when jobs can
// be submitted and a worker is ready to run them. On an error it stops everything that it started.
// The context limits only the start.
//
// If this machine lacks required programs, the error lists all of them, and nothing is started.
func StartFleet(ctx context.Context, cfg FleetConfig) (_ *Fleet, err error) {
	if err := cfg.lacks(thisMachine()).err(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	if cfg.needsImage() {
		archive, err := BuildImage(ctx, cfg.ImageCache, DefaultImage, cfg.Stderr)
		if err != nil {
			return nil, err
		}
		cfg.ImageArchives = []string{archive}
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	f := &Fleet{cfg: cfg, failed: make(chan error, 4), quit: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if f.cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return f, fmt.Errorf("data directory: %w", err)
	}
	if f.lock, err = Acquire(f.cfg.Dir); err != nil {
		return f, err
	}
	env, err := f.components(ctx)
	if err != nil {
		return f, err
	}
	return f, f.programs(ctx, env)
}

// URL returns the address of the API.
func (f *Fleet) URL() string { return f.url }

// Dir is the data directory.
func (f *Fleet) Dir() string { return f.cfg.Dir }

// Failed yields the reason if a component ended that cannot be restarted. The fleet should then be
// stopped.
func (f *Fleet) Failed() <-chan error { return f.failed }

// Stop stops everything in an order that loses nothing: first the worker, which finishes or returns
// its jobs, then the dispatcher, then the components. A second call does nothing.
func (f *Fleet) Stop(ctx context.Context) error {
	f.once.Do(func() {
		close(f.quit)
		var errs []error
		for i := len(f.stops) - 1; i >= 0; i-- {
			errs = append(errs, f.stops[i](ctx))
		}
		f.wg.Wait()
		if f.lock != nil {
			errs = append(errs, f.lock.Release())
		}
		f.err = errors.Join(errs...)
	})
	return f.err
}

func (f *Fleet) onStop(stop func(context.Context) error) { f.stops = append(f.stops, stop) }

// components starts the components and returns the environment with their addresses.
func (f *Fleet) components(ctx context.Context) ([]string, error) {
	pg, err := StartPostgres(ctx, PostgresConfig{Dir: f.path("postgres")})
	if err != nil {
		return nil, err
	}
	f.watch("postgres", pg.proc, nil)
	f.onStop(pg.Stop)
	key, err := keyIn(f.path("workers.key"))
	if err != nil {
		return nil, err
	}
	if f.key, err = identity.ParseKey(key); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path("workers.key"), err)
	}
	nats, err := StartNATS(ctx, NATSConfig{Dir: f.path("nats"), Key: f.key, Logger: f.cfg.Log})
	if err != nil {
		return nil, err
	}
	f.onStop(func(context.Context) error { nats.Stop(); return nil })
	objects := f.path("objects")
	if err := os.MkdirAll(objects, 0o755); err != nil {
		return nil, fmt.Errorf("create the object directory: %w", err)
	}
	env := []string{
		"ASSAY_DATABASE_URL=" + pg.DSN(),
		"ASSAY_NATS_URL=" + nats.ClientURL(),
		"ASSAY_OBJECTS_URL=file://" + objects,
	}
	if f.cfg.Runtime == "noop" {
		return append(env, "ASSAY_RUNTIME=noop"), nil
	}
	c, err := StartContainerd(ctx, ContainerdConfig{Dir: f.path("containerd")})
	if err != nil {
		return nil, err
	}
	f.watchContainerd(c)
	f.onStop(c.Stop)
	return append(env, "ASSAY_CONTAINERD_ADDRESS="+c.Address()), nil
}

// programs starts the dispatcher and the worker.
func (f *Fleet) programs(ctx context.Context, env []string) error {
	listen, err := freeAddress(f.cfg.Listen)
	if err != nil {
		return err
	}
	f.url = "http://" + localAddress(listen)
	state := f.path("worker")
	if err := os.MkdirAll(state, 0o755); err != nil {
		return fmt.Errorf("create the worker's directory: %w", err)
	}
	secrets, err := keyIn(f.path("secrets.key"))
	if err != nil {
		return err
	}
	tokens, err := f.ownToken()
	if err != nil {
		return err
	}
	api, err := client.New(f.url, client.WithPatience(0), client.WithToken(f.token))
	if err != nil {
		return err
	}
	database, others := env[0], env[1:] // workers hold no database credentials
	children := []*child{
		{name: "dispatcher", patience: childPatience, env: append([]string{database, "ASSAY_LISTEN=" + listen, "ASSAY_SECRETS_KEY=" + secrets,
			"ASSAY_WORKERS_KEY=@" + f.path("workers.key")}, others...)},
		{name: "worker", patience: workerPatience, env: append([]string{
			"ASSAY_STATE_DIR=" + state,
			"ASSAY_WORKER_ID=" + devWorker,
			"ASSAY_WORKER_TOKEN=" + f.key.Token(f.setting("ASSAY_WORKER_ID", devWorker), f.setting("ASSAY_POOL", cmp.Or(os.Getenv("ASSAY_POOL"), devPool))),
			"ASSAY_ENVIRONMENTS=" + f.path("environments"),
			// no job may be a client of the fleet, even if an operator opens loopback
			"ASSAY_EGRESS_NEVER=" + strings.Trim(localAddress(listen)+","+os.Getenv("ASSAY_EGRESS_NEVER"), ","),
			"ASSAY_IMAGE_ARCHIVES=" + strings.Join(f.cfg.ImageArchives, ","),
		}, others...)},
	}
	for _, c := range children {
		c.path = f.cfg.program(c.name)
		c.env = environment(c.name, slices.Concat(c.env, []string{"ASSAY_METRICS_LISTEN=127.0.0.1:0"}, f.cfg.Env, tokens))
		c.logFile = f.path(c.name + ".log")
		c.log = f.cfg.Log
		if f.cfg.Verbose {
			c.copyTo = f.cfg.Stderr
		}
		if err := c.start(); err != nil {
			return err
		}
		f.onStop(c.stop)
		// Only a dispatcher admits workers: an earlier worker waits for seconds.
		if err := f.retry(ctx, children, api.Ready); err != nil {
			return err
		}
	}
	return f.retry(ctx, children, func(ctx context.Context) error {
		ws, err := api.Workers(ctx)
		if err == nil {
			err = offered(ws)
		}
		return err
	})
}

// program returns the path of a program. A worker that runs nothing is built separately, except by
// tests.
func (cfg FleetConfig) program(name string) string {
	if apart := filepath.Join(cfg.BinDir, "faults", name); name == "worker" && cfg.Runtime == "noop" {
		if _, err := os.Stat(apart); err == nil {
			return apart
		}
	}
	return filepath.Join(cfg.BinDir, name)
}

// offered returns nil if a worker offers an isolation level, otherwise the report of the last
// worker.
func offered(ws []store.Worker) error {
	said := []string{"no worker has registered"}
	for _, w := range ws {
		var host policy.Host
		if err := json.Unmarshal(w.Host, &host); err == nil && len(host.Isolations) > 0 {
			return nil
		}
		said = append(said, w.ID+": "+w.Held)
	}
	return errors.New(said[len(said)-1])
}

// retry calls can repeatedly until it succeeds or a child has been given up.
func (f *Fleet) retry(ctx context.Context, children []*child, can func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := can(ctx)
		if err == nil {
			return nil
		}
		for _, c := range children {
			if why := c.failure(); why != nil {
				return why
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the fleet did not get ready: %w: %w\n%s\n%s", ctx.Err(), err,
				daemon.Tail(children[0].logFile), daemon.Tail(children[1].logFile))
		}
	}
}

// watch reports an unexpected end of a component. revive restarts the component; without revive,
// the fleet has failed.
func (f *Fleet) watch(name string, p *daemon.Process, revive func() (*daemon.Process, error)) {
	f.wg.Go(func() {
		for {
			select {
			case <-f.quit:
				return
			case <-p.Done():
			}
			select {
			case <-f.quit: // both at once: the fleet is being stopped
				return
			default:
			}
			if revive == nil {
				f.failed <- fmt.Errorf("%s ended: %w", name, p.Err())
				return
			}
			f.cfg.Log.Warn("component ended; restarting it", "component", name, "error", p.Err())
			next, err := revive()
			if err != nil {
				f.failed <- err
				return
			}
			p = next
		}
	})
}

func (f *Fleet) watchContainerd(c *Containerd) {
	f.watch("containerd", c.Process(), func() (*daemon.Process, error) {
		ctx, cancel := context.WithTimeout(context.Background(), startPatience)
		defer cancel()
		if err := c.Restart(ctx); err != nil {
			return nil, err
		}
		return c.Process(), nil
	})
}

// keyIn returns the key in a file and creates the file if it does not exist.
func keyIn(file string) (string, error) {
	have, err := os.ReadFile(file)
	if err == nil {
		return string(have), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read a key: %w", err)
	}
	key := identity.NewKey()
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		return "", fmt.Errorf("keep a key: %w", err)
	}
	return key, nil
}

// setting returns a setting of the programs from the overriding environment.
func (f *Fleet) setting(name, otherwise string) string {
	for _, e := range slices.Backward(f.cfg.Env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return otherwise
}

func (f *Fleet) path(name string) string { return filepath.Join(f.cfg.Dir, name) }

// freeAddress replaces port 0 by a free port. A restarted dispatcher needs the same port again.
func freeAddress(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) && errno == syscall.EADDRINUSE {
			return "", fmt.Errorf("%s is in use; choose another address with --listen, such as --listen 127.0.0.1:0 for any free port", listen)
		}
		return "", fmt.Errorf("listen on %s: %w", listen, err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// localAddress returns an address at which this machine reaches a listener. For a listener on all
// addresses, that is loopback.
func localAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return listen
	}
	return net.JoinHostPort("127.0.0.1", port)
}
