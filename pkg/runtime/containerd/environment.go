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
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
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
	turns chan struct{} // bounds building: it takes memory that no job has promised

	mu     sync.Mutex
	ready  map[string]*image    // by what was asked for
	failed map[string]failedEnv // lately
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

// lock says what is in an environment.
type lockfile struct {
	Packages []string `json:"packages"` // name==version --hash=sha256:…
	Bytes    int64    `json:"bytes"`
}

func newEnvironments(r *Runtime) *environments {
	return &environments{rt: r, dir: r.cfg.Environments, turns: make(chan struct{}, buildsAtOnce), ready: map[string]*image{}, failed: map[string]failedEnv{}}
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

// find returns the image of key, with the packages that it asks for.
func (r *Runtime) find(ctx context.Context, key runtime.Key) (*image, error) {
	base, err := r.images.get(ctx, key.Image)
	if err != nil {
		return nil, err
	}
	r.named.note(key.Image, base.digest)
	if key.Packages == "" {
		return base, nil
	}
	return r.environments.get(ctx, base, key.Packages)
}

// get returns base with packages, one requirement a line. The error is a
// *runtime.BuildError if they cannot be had.
func (e *environments) get(ctx context.Context, base *image, packages string) (*image, error) {
	sum := sha256.Sum256([]byte(base.digest + "\n" + packages))
	want := hex.EncodeToString(sum[:])
	e.mu.Lock()
	img, failed := e.ready[want], e.failed[want]
	e.mu.Unlock()
	switch {
	case img != nil:
		return img, nil
	case time.Now().Before(failed.until):
		return nil, failed.err
	}
	// Whoever waits shares the work, but gives up on its own terms.
	shared := e.group.DoChan(want, func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(e.rt.ctx, cancel)()
		return e.load(ctx, base, packages, want)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an environment: %w", context.Cause(ctx))
	case r := <-shared:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*image), nil
	}
}

// load returns a kept environment, or builds it.
func (e *environments) load(ctx context.Context, base *image, packages, want string) (*image, error) {
	if !e.rt.enter() {
		return nil, errClosed
	}
	defer e.rt.background.Done()
	dir := filepath.Join(e.dir, want)
	l, err := readLock(dir)
	if errors.Is(err, os.ErrNotExist) {
		l, err = e.build(ctx, base, packages, dir)
	}
	var img *image
	if err == nil {
		img, err = e.mount(base, dir, want, l)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if failure := new(runtime.BuildError); errors.As(err, &failure) {
		if len(e.failed) >= failedMost {
			clear(e.failed)
		}
		e.failed[want] = failedEnv{err, time.Now().Add(failedTTL)}
	}
	if err != nil {
		return nil, err
	}
	delete(e.failed, want)
	e.ready[want] = img
	return img, nil
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

// mount stacks an environment's layer over the layers of its base. It is one
// overlay, not one over another: the kernel stacks two, and boxes need a second.
func (e *environments) mount(base *image, dir, want string, l lockfile) (*image, error) {
	layers, err := e.rt.images.layers(base.rootfs)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(base.digest + "\n" + strings.Join(l.Packages, "\n")))
	img := &image{
		name: base.name, digest: "sha256:" + hex.EncodeToString(sum[:]), env: base.env,
		rootfs: filepath.Join(e.rt.images.dir, "env-"+want), packages: l.Packages,
	}
	if err := os.MkdirAll(img.rootfs, 0o711); err != nil {
		return nil, err
	}
	lower := append([]string{escapeOverlay(filepath.Join(dir, "layer"))}, layers...)
	m := mount.Mount{Type: "overlay", Source: "overlay", Options: []string{"ro", "lowerdir=" + strings.Join(lower, ":")}}
	if err := m.Mount(img.rootfs); err != nil {
		return nil, fmt.Errorf("mount an environment: %w", err)
	}
	m2 := e.rt.images
	m2.mu.Lock()
	defer m2.mu.Unlock()
	m2.roots["env-"+want] = img.rootfs
	// Two lists of requirements may come to the same: the first stays.
	if have := m2.known[img.digest]; have != nil {
		return have, nil
	}
	m2.known[img.digest] = img
	return img, nil
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
	dir   string
	bytes int64
	used  time.Time
	whole bool
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
			k.whole = err == nil && json.Unmarshal(raw, &l) == nil
			k.bytes = l.Bytes
		}
		total += k.bytes
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b keptEnv) int { return a.used.Compare(b.used) })
	return kept, total, nil
}
