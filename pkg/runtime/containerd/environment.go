package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/meter"
)

// environments are images with packages on top: built once, kept on disk by what
// was asked for, and named by what came of that. Jobs see one as any image, so
// it is there at every isolation, in warm slots too, and costs a job nothing.
//
// An environment is a directory of its own:
//
//	layer/     what the packages added to the root file system
//	lock.json  what is in it; written last, so that half an environment is none
type environments struct {
	rt    *Runtime
	dir   string
	lock  *os.File // of dir; nil: it is the runtime's own
	group singleflight.Group

	building *meter.Fetching
	removed  meter.Removed

	turns, sources *turns // bound building: it takes memory that no job has promised

	shared sharing // with other workers

	room sync.Mutex  // held while something in dir comes, goes or is mounted
	full atomic.Bool // it takes more than it may: all was in use

	mu     sync.Mutex
	ready  map[string]*image.Image // by what was asked for
	failed map[string]failedEnv    // lately
}

// asked is what a job asks for. An environment of wheels that the worker has
// checked is the same for all tenants; one with something that was built from
// source is what the source's code made of it, and its tenant's alone.
type asked struct {
	tenant, packages string
	shared, own      string // what it is called, in either case
}

func ask(base *image.Image, tenant, packages string) asked {
	name := func(parts ...string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
		return hex.EncodeToString(sum[:])
	}
	return asked{tenant, packages, name(base.Digest, packages), name(base.Digest, packages, tenant)}
}

// failedEnv is a build that failed. A batch of a thousand jobs that want what
// cannot be had does not try a thousand times.
type failedEnv struct {
	err   error
	until time.Time
}

const (
	failedTTL  = 30 * time.Second
	failedMost = 1000
)

// lockfile says what is in an environment.
type lockfile struct {
	Packages []string `json:"packages"` // name==version --hash=sha256:…
	Bytes    int64    `json:"bytes"`
	Tree     string   `json:"tree"`              // hash of the layer, as it was copied
	Tenant   string   `json:"tenant"`            // for whom it was built
	Private  bool     `json:"private,omitempty"` // and whose alone it is
	Fetched  bool     `json:"fetched,omitempty"` // by another worker: this one vouches for nothing
}

// digest names what an environment on base is: by its content, and by nothing
// that was said about it.
func (l *lockfile) digest(base *image.Image) string {
	tenant := ""
	if l.Private {
		tenant = l.Tenant
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", base.Digest, l.Tree, l.Packages, tenant))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func newEnvironments(r *Runtime) *environments {
	return &environments{rt: r, dir: r.cfg.Environments, building: meter.NewBuilds(), removed: meter.NewRemoved(), turns: newTurns(buildsAtOnce), sources: newTurns(buildsAtOnce), shared: newSharing(r.cfg.Shared), ready: map[string]*image.Image{}, failed: map[string]failedEnv{}}
}

// own is where environments are that do not outlive the runtime.
func (e *environments) own() string { return filepath.Join(e.rt.dir, "environments") }

// open takes the directory for this runtime alone. If another has it already,
// or there is none, this one's last as long as itself.
func (e *environments) open() error {
	if e.dir != "" {
		err := os.MkdirAll(e.dir, 0o711)
		if err == nil {
			e.lock, err = lock(e.dir)
		}
		if err == nil {
			return e.trim(e.rt.cfg.EnvironmentsMost)
		}
		slog.Warn("environments are not kept", "directory", e.dir, "error", err)
	}
	e.dir = e.own()
	return os.MkdirAll(e.dir, 0o711)
}

func (e *environments) close() {
	if e.lock != nil {
		_ = e.lock.Close()
	}
}

// findTries is how often an image is looked for that is collected just then.
const findTries = 3

// find returns the image of key, with the packages that it asks for. It stays until
// release is called.
func (r *Runtime) find(ctx context.Context, key runtime.Key) (img *image.Image, release func(), err error) {
	for range findTries {
		if img, err = r.look(ctx, key); err == nil {
			release, err = r.images.Hold(img)
		}
		if !errors.Is(err, image.ErrCollected) {
			return img, release, err
		}
	}
	return nil, nil, fmt.Errorf("%w: %w", runtime.ErrImage, err)
}

// look is find for what nobody holds yet.
func (r *Runtime) look(ctx context.Context, key runtime.Key) (*image.Image, error) {
	base, err := r.images.Get(ctx, key.Image)
	if err != nil {
		return nil, err
	}
	r.images.Note(key.Image, base.Digest)
	if key.Packages == "" {
		return base, nil
	}
	img, err := r.environments.get(ctx, base, key.Tenant, key.Packages)
	if err == nil {
		r.environments.note(img)
	}
	return img, err
}

// get returns base with packages, one requirement a line, for a tenant. The error
// is a *runtime.BuildError if they cannot be had.
func (e *environments) get(ctx context.Context, base *image.Image, tenant, packages string) (*image.Image, error) {
	ask := ask(base, tenant, packages)
	e.mu.Lock()
	img, failed := e.ready[ask.shared], e.failed[ask.own]
	if img == nil {
		img = e.ready[ask.own]
	}
	e.mu.Unlock()
	switch {
	case img != nil:
		return img, nil
	case time.Now().Before(failed.until):
		return nil, failed.err
	}
	// Whoever waits shares the work, but gives up on its own terms. Tenants do not
	// wait for each other.
	shared := e.group.DoChan(ask.own, func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(e.rt.ctx, cancel)()
		return e.load(ctx, base, ask)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an environment: %w", context.Cause(ctx))
	case r := <-shared:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*image.Image), nil
	}
}

// load returns a kept environment, or builds it.
func (e *environments) load(ctx context.Context, base *image.Image, ask asked) (*image.Image, error) {
	if !e.rt.enter() {
		return nil, errClosed
	}
	defer e.rt.background.Done()
	release, err := e.rt.images.Hold(base)
	if err != nil {
		return nil, err
	}
	defer release()
	img, err := e.use(base, func() (string, lockfile, error) { return e.find(ask) })
	if errors.Is(err, os.ErrNotExist) {
		img, err = e.make(ctx, base, ask)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if failure := new(runtime.BuildError); errors.As(err, &failure) {
		if len(e.failed) >= failedMost {
			clear(e.failed)
		}
		e.failed[ask.own] = failedEnv{err, time.Now().Add(failedTTL)}
	}
	if err != nil {
		return nil, err
	}
	delete(e.failed, ask.own)
	return img, nil
}

// make fetches an environment, or builds it, and makes it ready. Others go for it, if
// need be.
func (e *environments) make(ctx context.Context, base *image.Image, ask asked) (*image.Image, error) {
	dir, l, fetched := e.fetch(ctx, base, ask)
	if !fetched {
		var counted func(int64, error)
		var err error
		ctx, counted = e.building.Begin(ctx, base.Name)
		dir, l, err = e.build(ctx, base, ask)
		counted(l.Bytes, err)
		if err != nil {
			return nil, err
		}
	}
	img, err := e.use(base, func() (string, lockfile, error) { return dir, l, nil })
	if errors.Is(err, os.ErrNotExist) {
		err = image.ErrCollected
	}
	if err == nil {
		_, err = e.collect(ask.tenant, filepath.Base(dir))
	}
	return img, err
}

// use makes the environment ready that find finds.
func (e *environments) use(base *image.Image, find func() (dir string, l lockfile, err error)) (*image.Image, error) {
	e.room.Lock()
	defer e.room.Unlock()
	dir, l, err := find()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "lock.json")); err != nil {
		return nil, err
	}
	img, err := e.mount(base, dir, &l)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.ready[filepath.Base(dir)] = img
	e.mu.Unlock()
	e.offer(img, filepath.Base(dir), &l)
	return img, nil
}

// find looks for a kept environment.
func (e *environments) find(ask asked) (dir string, l lockfile, err error) {
	for _, name := range []string{ask.shared, ask.own} {
		dir = filepath.Join(e.dir, name)
		if l, err = readLock(dir); !errors.Is(err, os.ErrNotExist) {
			return dir, l, err
		}
	}
	return dir, l, err
}

func readLock(dir string) (l lockfile, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, "lock.json"))
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("%s: %w; remove it", filepath.Join(dir, "lock.json"), err)
	}
	return l, os.Chtimes(filepath.Join(dir, "lock.json"), time.Now(), time.Now()) // used lately
}

// mount stacks an environment's layer over the layers of its base.
func (e *environments) mount(base *image.Image, dir string, l *lockfile) (*image.Image, error) {
	return e.rt.images.Stack(base, image.Addition{Name: mountName(filepath.Base(dir)), Digest: l.digest(base), Layer: filepath.Join(dir, "layer"), Packages: l.Packages})
}

// trim forgets the environments that were used longest ago until there is room.
// It is called before anything is mounted.
func (e *environments) trim(most job.Size) error {
	kept, total, err := e.list()
	if err != nil {
		return err
	}
	for i, k := range kept {
		if !k.whole || total > int64(most) || i < len(kept)-environmentsMost/2 {
			total -= k.bytes
			if err := os.RemoveAll(k.dir); err != nil {
				return fmt.Errorf("forget an environment: %w", err)
			}
		}
	}
	return nil
}

type keptEnv struct {
	dir    string
	tenant string // for whom it was built
	bytes  int64
	used   time.Time
	whole  bool
}

// list returns the environments on disk, the one used longest ago first.
func (e *environments) list() (kept []keptEnv, total int64, err error) {
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list environments: %w", err)
	}
	for _, d := range entries {
		if !d.IsDir() {
			continue // the lock
		}
		k := keptEnv{dir: filepath.Join(e.dir, d.Name())}
		if info, err := os.Stat(filepath.Join(k.dir, "lock.json")); err == nil {
			k.used = info.ModTime()
			var l lockfile
			raw, err := os.ReadFile(filepath.Join(k.dir, "lock.json"))
			k.whole = err == nil && json.Unmarshal(raw, &l) == nil && l.Tree != "" && // named by what it holds
				!strings.HasPrefix(d.Name(), goneMark)
			if k.whole {
				k.bytes, k.tenant = l.Bytes, l.Tenant
			}
		}
		total += k.bytes
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b keptEnv) int { return a.used.Compare(b.used) })
	return kept, total, nil
}
