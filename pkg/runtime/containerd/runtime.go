package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/cell"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/containerd/filter"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/disk"
	"github.com/assay-run/assay/pkg/runtime/egress"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
	slotpool "github.com/assay-run/assay/pkg/runtime/pool"
)

// Runtime runs attempts in containers of one containerd.
type Runtime struct {
	cfg      Config
	dir      string // below the state directory, exclusive
	lock     *os.File
	instance string // identifies the state directory
	started  string // differs from run to run, so that names are unique
	next     atomic.Uint64
	ids      hostcheck.IDs

	client  *client.Client
	engine  *engine.Engine // for isolation task, and for cells
	levels  map[policy.Isolation]*level
	cgroups *cgroup.Hierarchy
	share   guest.Share // of each job
	images  *image.Store
	pool    *slotpool.Pool[taskSlotKey, *slot]
	cells   *cell.Cells

	environments *environments
	network      *egress.Network // of jobs

	filter  []byte // the seccomp program of jobs without restrictions
	filters filter.Filters
	host    policy.Host

	machineFilter *specs.LinuxSeccomp

	background *background.Group // Close waits for it
	parallel   chan struct{}     // limits concurrent creation and clean-up
	patience   time.Duration     // time limit of one attempt to create a container

	disks   *disk.Store
	noDisks error // why there are none

	mu   sync.Mutex
	live map[*slot]bool

	closing  sync.Mutex
	closed   bool
	closeErr error
}

var _ runtime.Runtime = (*Runtime)(nil)

// connectTime is how long New waits for containerd to respond.
const connectTime = 10 * time.Second

// New connects to containerd, removes the remains of a killed predecessor, and imports the image
// archives. The state directory must not be in use.
func New(ctx context.Context, cfg Config) (_ *Runtime, err error) {
	cfg = cfg.withDefaults()
	r := &Runtime{
		cfg: cfg, started: strconv.FormatInt(time.Now().UnixNano(), 36),
		parallel: make(chan struct{}, cfg.Parallel), patience: makePatience, live: map[*slot]bool{}, background: background.New(ctx),
	}
	defer func() {
		if err != nil {
			if r.lock != nil {
				err = errors.Join(err, unmountBelow(r.dir), r.removeState())
			}
			r.release()
		}
	}()
	if r.ids, err = hostcheck.NewIDs(); err != nil {
		r.ids = hostcheck.AllIDs(hostcheck.BaseID, 1) // never used, because inspect then offers nothing and reports why
	}
	if r.network, err = egress.Open(ctx, cfg.Egress); err != nil {
		return nil, err
	}
	if r.filter, err = filter.Compile(filter.Program()); err != nil {
		return nil, err
	}
	r.machineFilter = filter.Machine(engine.MachineCaps)
	state, err := cfg.stateDir()
	if err != nil {
		return nil, err
	}
	r.dir = filepath.Join(state, Run)
	if err := cfg.checkOwn(r.dir); err != nil {
		return nil, err
	}
	if r.lock, err = lock(r.dir); err != nil {
		return nil, err
	}
	r.instance = instance(state)
	if r.cgroups, err = cgroup.Detect(cfg.CgroupRoot); err != nil {
		return nil, err
	}
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	if err := r.sweep(ctx); err != nil {
		return nil, fmt.Errorf("clean up after the previous worker: %w", err)
	}
	if err := layGuest(cfg.Guest, filepath.Join(r.dir, "guest")); err != nil {
		return nil, err
	}
	r.disks, r.noDisks = disk.Open(cmp.Or(cfg.Disks, filepath.Join(r.dir, "disks")))
	r.share = hostcheck.ShareOf("/", cfg.Jobs)
	if err := r.openLevels(); err != nil {
		return nil, err
	}
	for _, a := range cfg.ImageArchives {
		if err := r.images.ImportArchive(ctx, a); err != nil {
			return nil, err
		}
	}
	r.host = r.inspect(ctx)
	r.pool = r.taskPool()
	if r.environments, err = openEnvironments(r); err != nil {
		return nil, fmt.Errorf("directory of environments: %w", err)
	}
	if r.cells, err = r.openCells(); err != nil {
		return nil, err
	}
	r.background.Spawn(r.tidy)
	return r, nil
}

func (r *Runtime) connect(ctx context.Context) error {
	images, err := r.imagesConfig()
	if err != nil {
		return err
	}
	c, err := client.New(r.cfg.Address, client.WithDefaultNamespace(r.cfg.Namespace), client.WithTimeout(connectTime))
	if err != nil {
		return fmt.Errorf("connect to containerd at %s: %w", r.cfg.Address, err)
	}
	r.client = c
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if _, err := c.Version(ctx); err != nil {
		return fmt.Errorf("connect to containerd at %s: %w", r.cfg.Address, err)
	}
	egress.Zero()
	images.Client = c
	r.images = image.New(images)
	r.engine, err = engine.Maker{Client: c, Instance: r.instance, Worker: r.cfg.WorkerID}.Of(r.cfg.Runtime, r.cfg.Runc, "")
	return err
}

// Cells returns the cells, for their own tests. Programs use Acquire.
func (r *Runtime) Cells() *cell.Cells { return r.cells }

// openCells opens the cells of r.
func (r *Runtime) openCells() (*cell.Cells, error) {
	return cell.Open(cell.Config{
		Dir: r.dir, Images: r.images, Engine: r.engine, Cgroups: r.cgroups, Group: r.cgroup, Share: r.share, Network: r.network,
		Find: r.find, Another: r.another, LimitWatches: r.limitWatches, Background: r.background,
		Warm: r.cfg.CellWarm, WarmIdle: r.cfg.WarmIdle, WarmMemory: r.cfg.WarmMemory, Jobs: r.cfg.CellJobs, Age: r.cfg.CellAge,
		Zygotes: r.cfg.Zygotes, PreloadMemory: r.cfg.PreloadMemory, PreloadIdle: r.cfg.PreloadIdle,
	})
}

// Cgroup returns the control group of everything that r starts.
func (r *Runtime) Cgroup() string { return "/assay-" + r.instance }

// cgroup returns the path of a control group of this instance.
func (r *Runtime) cgroup(name string) string { return r.Cgroup() + "/" + name }

// Host implements runtime.Runtime.
func (r *Runtime) Host() policy.Host { return r.host }

// Acquire implements runtime.Runtime.
func (r *Runtime) Acquire(ctx context.Context, key runtime.Key) (runtime.Slot, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if key.Isolation == policy.Cell {
		return r.cells.Acquire(ctx, key)
	}
	l := r.levels[key.Isolation]
	if l == nil || !slices.Contains(r.host.Isolations, key.Isolation) {
		return nil, job.Invalid("policy.isolation", "%s is not available on this worker", key.Isolation)
	}
	img, release, err := r.find(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release()             // the slot holds it
	if key.SandboxGroup != "" { // warm ones may be affected by the same fault as the first
		s, err := r.makeSlot(ctx, l, img, defaultShape)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := r.pool.Get(ctx, taskSlotKey{l.isolation, img.Digest, key.Kind != "command" && !l.foreign})
	if err != nil {
		return nil, err // not s: a nil *slot is not a nil Slot
	}
	return s, nil
}

const (
	// makeTime limits the creation of a container on an overloaded machine.
	makeTime = time.Minute
	// makePatience limits one attempt. One in thousands of gVisor sandboxes hangs during its
	// creation, and the next one does not.
	makePatience = 20 * time.Second
)

// makeSlot calls newSlot in its turn, and a second time after a timeout.
func (r *Runtime) makeSlot(ctx context.Context, lv *level, img *image.Image, want shape) (*slot, error) {
	if !r.background.Enter() {
		return nil, background.ErrClosed
	}
	defer r.background.Leave()
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	defer context.AfterFunc(r.background.Context(), cancel)()
	select {
	case r.parallel <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to make a slot: %w", context.Cause(ctx))
	}
	s, err := r.tryNewSlot(ctx, lv, img, want)
	for errors.Is(err, errTimeout) && ctx.Err() == nil {
		slog.WarnContext(ctx, "sandbox not created; retrying", "isolation", lv.isolation, "error", err)
		s, err = r.tryNewSlot(ctx, lv, img, want)
	}
	<-r.parallel
	if err != nil {
		return nil, err
	}
	if !r.register(s) {
		s.Close()
		return nil, background.ErrClosed
	}
	return s, nil
}

var errTimeout = errors.New("the creation of a sandbox hangs")

// tryNewSlot calls newSlot with the time limit of one attempt.
func (r *Runtime) tryNewSlot(ctx context.Context, lv *level, img *image.Image, want shape) (*slot, error) {
	try, cancel := context.WithTimeoutCause(ctx, r.patience, errTimeout)
	defer cancel()
	s, err := r.newSlot(try, lv, img, want)
	if err != nil && context.Cause(try) == errTimeout {
		err = fmt.Errorf("%w: %w", errTimeout, err)
	}
	return s, err
}

// register records a slot that Close must destroy. It fails after Close has started.
func (r *Runtime) register(s *slot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.background.Context().Err() != nil {
		return false
	}
	r.live[s] = true
	return true
}

// clean destroys a closed slot, in the background if possible.
func (r *Runtime) clean(s *slot) {
	r.mu.Lock()
	delete(r.live, s)
	r.mu.Unlock()
	destroy := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.background.Context()), cleanTime)
		defer cancel()
		if err := s.destroy(ctx); err != nil {
			slog.ErrorContext(ctx, "slot not cleaned; the next sweep will retry", "slot", s.dir, "error", err)
		}
	}
	inTurn := func() {
		r.parallel <- struct{}{}
		defer func() { <-r.parallel }()
		destroy()
	}
	if !r.background.Spawn(inTurn) {
		destroy()
	}
}

// Close implements runtime.Runtime. It kills running attempts.
func (r *Runtime) Close(ctx context.Context) error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.closed {
		return r.closeErr
	}
	r.closed = true
	r.background.Stop()
	r.pool.Close()
	r.cells.Close()
	r.background.Seal()
	for _, s := range r.slots() {
		s.Close()
	}
	done := make(chan struct{})
	go func() { r.background.Wait(); close(done) }()
	select {
	case <-done:
		r.cells.Destroy(ctx)
		if r.noDisks == nil {
			r.closeErr = r.disks.Close()
		}
		r.closeErr = errors.Join(r.closeErr, r.images.Close(ctx), r.sweep(ctx), r.removeState())
	case <-ctx.Done():
		r.closeErr = fmt.Errorf("close the runtime: %w", context.Cause(ctx))
	}
	r.release()
	return r.closeErr
}

// slots returns the live slots.
func (r *Runtime) slots() []*slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.live))
}

func (r *Runtime) release() {
	r.background.Stop()
	if r.client != nil {
		_ = r.client.Close()
	}
	if r.environments != nil {
		r.environments.close()
	}
	if r.network != nil {
		r.network.Close()
	}
	if r.lock != nil {
		_ = r.lock.Close()
	}
}
