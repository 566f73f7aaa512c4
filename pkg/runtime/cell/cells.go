package cell

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/cgroup/lease"
	"github.com/assay-run/assay/pkg/runtime/containerd/filter"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	slotpool "github.com/assay-run/assay/pkg/runtime/pool"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// Cells manages the cells of this host and their slots.
type Cells struct {
	cfg        Config
	background *background.Group
	filters    filter.Filters
	seccomp    *specs.LinuxSeccomp
	filter     []byte // of every job
	forking    []byte // of jobs that may be copied
	groups     *lease.Groups
	pool       *slotpool.Pool[slotKey, *slot]
	loaded     *preloads
	group      singleflight.Group
	running    atomic.Int32 // slots with a running job

	mu     sync.Mutex
	live   map[owner]*cell
	old    map[*cell]bool // retired cells with slots in use
	slots  map[*slot]bool
	closed bool
}

// owner identifies the jobs that may share a cell. Tenants never share one.
type owner struct{ tenant, digest, sandboxGroup string }

// slotKey identifies interchangeable slots of cells.
type slotKey struct {
	owner
	zygote  byte   // the kind of its waiting interpreter; 0: none
	preload string // the interpreter's imported modules, and the program's cores
	cores   int
}

// Open prepares for cells below cfg.Dir. It fails if the host does not let the worker mount file
// systems or compile filters. After an error the caller removes the directory with its mounts.
func Open(cfg Config) (*Cells, error) {
	usual, err := filter.Job(false)
	if err != nil {
		return nil, err
	}
	forking, err := filter.Job(true)
	if err != nil {
		return nil, err
	}
	c := &Cells{
		cfg: cfg, background: cfg.Background, seccomp: filter.Cell(), filter: usual, forking: forking,
		groups: lease.New(cfg.Cgroups, cfg.Group("jobs")),
		live:   map[owner]*cell{}, old: map[*cell]bool{}, slots: map[*slot]bool{},
	}
	if err := layBare(filepath.Join(cfg.Dir, "bare")); err != nil {
		return nil, err
	}
	c.loaded = newPreloads(c)
	c.pool = slotpool.New(slotpool.Config[slotKey, *slot]{
		Name: "cell", Most: cfg.Warm, Memory: int64(cfg.WarmMemory), Idle: cfg.WarmIdle, Fill: 2,
		Settle: 12 * time.Millisecond, // duration of a short job, or of a session's creation and first execution
		Make:   c.make,
		Warm:   c.warmUp,
		Weigh:  weigh,
		Drop:   func(s *slot) { s.Close() },
		Alive:  func(_ slotKey, s *slot) bool { return s.alive() },
	})
	c.background.Spawn(c.tidy)
	return c, nil
}

// tidy retires unused cells and frees unused control groups, until the end.
func (c *Cells) tidy() {
	tick := time.NewTicker(max(c.cfg.WarmIdle/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-c.background.Context().Done():
			return
		case now := <-tick.C:
			c.loaded.expire(now)
			c.expire(now)
			c.groups.Trim(c.background.Context(), now.Add(-c.cfg.WarmIdle))
		}
	}
}

// warmUp makes a waiting interpreter for sessions run their initial code, if cores are idle.
// Without it, a session's first response may take 1.2 times as long; measurements differ
// (docs/performance.md). Programs do not benefit from a warm-up.
func (c *Cells) warmUp(_ context.Context, key slotKey, s *slot) error {
	if s.job == nil || key.zygote != guest.ZygoteServices || int(c.running.Load()) >= goruntime.NumCPU() {
		return nil
	}
	return s.job.slot.Send([]byte{guest.BoxWarmUp})
}

// Acquire returns a slot of the cell of key.
func (c *Cells) Acquire(ctx context.Context, key runtime.Key) (runtime.Slot, error) {
	img, release, err := c.cfg.Find(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release() // the cell holds it
	want := slotKey{owner: owner{key.Tenant, img.Digest, key.SandboxGroup}, zygote: zygoteOf(key.Kind)}
	get := c.pool.Get
	if key.SandboxGroup != "" { // it will not be used again
		get = c.make
	} else if want.zygote != 0 {
		cores := sandbox.CoresOf(key.CPU)
		if want.preload = c.loaded.choose(ctx, want.owner, want.zygote, key.Imports, cores); want.preload != "" {
			want.cores = cores
		}
	}
	s, err := get(ctx, want)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Fresh creates a slot outside of all pools in the cell of key, for img. The cell ends when its
// slots are closed.
func (c *Cells) Fresh(ctx context.Context, img *image.Image, key runtime.Key) (runtime.Slot, error) {
	home := owner{key.Tenant, img.Digest, key.SandboxGroup}
	s, err := c.make(ctx, slotKey{owner: home, zygote: zygoteOf(key.Kind)})
	c.retire(home)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// zygoteOf returns the kind of zygote for a kind of program.
func zygoteOf(kind string) byte {
	switch kind {
	case "command":
		return 0
	case "tests", "session":
		return guest.ZygoteServices
	}
	return guest.ZygotePrograms
}

// make creates a slot in the cell of key, or in a new one.
func (c *Cells) make(ctx context.Context, key slotKey) (*slot, error) {
	if !c.background.Enter() {
		return nil, background.ErrClosed
	}
	defer c.background.Leave()
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	defer context.AfterFunc(c.background.Context(), cancel)()
	home, err := c.home(ctx, key.owner)
	if err != nil {
		return nil, err
	}
	defer c.leave(home)
	if key.preload != "" {
		if p := c.loaded.of(preloadKey{key.owner, key.zygote, key.preload, key.cores}); p != nil {
			s, err := p.newSlot(ctx)
			if err == nil {
				return s, nil
			}
			slog.WarnContext(ctx, "preloaded interpreter not available; the program imports its modules", "modules", key.preload, "error", err)
		}
	}
	s, err := home.newSlot(ctx, key.zygote, sandbox.DefaultLayout)
	if err != nil && ctx.Err() == nil && !home.fresh() { // it has just lost its interpreter or its launcher
		err = fmt.Errorf("%w: %w", runtime.ErrBroken, err)
	}
	return s, err
}

// home returns the cell of a tenant and an image, with one more reserved slot.
func (c *Cells) home(ctx context.Context, key owner) (*cell, error) {
	for {
		if have := c.enter(key); have != nil {
			return have, nil
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		shared := c.group.DoChan(key.tenant+"\x00"+key.digest+"\x00"+key.sandboxGroup, func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTime)
			defer cancel()
			defer context.AfterFunc(c.background.Context(), cancel)()
			return nil, c.open(ctx, key)
		})
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a cell: %w", context.Cause(ctx))
		case r := <-shared:
			if r.Err != nil {
				return nil, r.Err
			}
		}
	}
}

// enter returns the cell of key if it can take another slot. It retires a worn-out cell.
func (c *Cells) enter(key owner) *cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.live[key]
	if have == nil {
		return nil
	}
	if !have.take() {
		delete(c.live, key)
		c.old[have] = true
		c.destroyRetired(have)
		return nil
	}
	return have
}

// take reserves a slot. It returns false if the cell takes no more.
func (c *cell) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	worn := c.made >= c.cells.cfg.Jobs || time.Since(c.born) > c.cells.cfg.Age
	c.retired = c.retired || worn || !c.alive()
	if c.retired {
		return false
	}
	c.slots++
	c.made++
	c.used = time.Now()
	return true
}

// open starts the cell of key.
func (c *Cells) open(ctx context.Context, key owner) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return background.ErrClosed
	}
	fresh, err := c.newCell(ctx, c.cfg.Images.Lookup(key.digest))
	if err != nil {
		return fmt.Errorf("start a cell: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.live[key]; have != nil {
		c.old[have] = true
		c.destroyRetired(have)
	}
	c.live[key] = fresh
	if c.closed {
		return background.ErrClosed // Close destroys it
	}
	return nil
}

// leave frees a slot of a cell.
func (c *Cells) leave(home *cell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	home.mu.Lock()
	home.slots--
	home.used = time.Now()
	home.mu.Unlock()
	if c.old[home] {
		c.destroyRetired(home)
	}
}

// destroyRetired destroys a retired cell without slots in the background. The caller holds the
// lock.
func (c *Cells) destroyRetired(old *cell) {
	old.mu.Lock()
	busy := old.slots > 0
	old.mu.Unlock()
	if busy || c.closed {
		return
	}
	delete(c.old, old)
	destroy := func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		old.destroy(ctx)
	}
	if !c.background.Spawn(destroy) {
		c.old[old] = true
	}
}

// expire retires cells that have been unused for a while.
func (c *Cells) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, have := range c.live {
		have.mu.Lock()
		idle := have.slots == 0 && now.Sub(have.used) > 2*c.cfg.WarmIdle || have.retired
		have.retired = have.retired || idle
		have.mu.Unlock()
		if idle {
			delete(c.live, key)
			c.old[have] = true
			c.destroyRetired(have)
		}
	}
}

// register records a slot that Close must destroy.
func (c *Cells) register(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.slots[s] = true
	return true
}

// Close kills every slot and creates no more. The clean-up continues in the background.
func (c *Cells) Close() {
	c.mu.Lock()
	c.closed = true
	live := make([]*slot, 0, len(c.slots))
	for s := range c.slots {
		live = append(live, s)
	}
	c.mu.Unlock()
	c.loaded.close()
	c.pool.Close()
	for _, s := range live {
		s.Close()
	}
}

// Destroy removes the cells after all slots are closed.
func (c *Cells) Destroy(ctx context.Context) {
	c.mu.Lock()
	all := c.old
	for _, have := range c.live {
		all[have] = true
	}
	c.old, c.live = map[*cell]bool{}, map[owner]*cell{}
	c.mu.Unlock()
	var wg sync.WaitGroup
	for have := range all {
		wg.Go(func() { have.destroy(ctx) })
	}
	wg.Wait()
}

// retire schedules the destruction of the cell of key when it has no slots.
func (c *Cells) retire(key owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.live[key]
	if have == nil {
		return
	}
	have.mu.Lock()
	have.retired = true
	have.mu.Unlock()
	delete(c.live, key)
	c.old[have] = true
	c.destroyRetired(have)
}
