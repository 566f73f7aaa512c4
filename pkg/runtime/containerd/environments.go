package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
	"github.com/assay-run/assay/pkg/runtime/meter"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// findTries is how often to look for an image that is being collected.
const findTries = 3

// find returns the image of key with the requested packages, held until release.
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

// look is find without the hold.
func (r *Runtime) look(ctx context.Context, key runtime.Key) (*image.Image, error) {
	base, err := r.images.Get(ctx, key.Image)
	if err != nil {
		return nil, err
	}
	r.images.Note(key.Image, base.Digest)
	if key.Packages == "" {
		return base, nil
	}
	return r.environments.get(ctx, base, key.Tenant, key.Packages)
}

// environments connects package environment with a runtime's images, its task sandboxes and its
// background tasks.
type environments struct {
	*environment.Store
	rt   *Runtime
	lock *os.File // of their directory; nil: the runtime's own directory
}

var _ environment.Host = (*environments)(nil)

// openEnvironments locks the directory of environments for this runtime. If another runtime has it,
// or there is none, environments end with this runtime.
func openEnvironments(r *Runtime) (*environments, error) {
	e := &environments{rt: r}
	dir := r.cfg.Environments
	if dir != "" {
		err := os.MkdirAll(dir, 0o711)
		if err == nil {
			e.lock, err = lock(dir)
		}
		if err != nil {
			slog.Warn("environments not stored; each is built again when needed", "directory", dir, "error", err)
		}
	}
	if e.lock == nil {
		dir = filepath.Join(r.dir, "environments")
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, err
		}
	}
	var err error
	removed := meter.NewRemoved()
	e.Store, err = environment.Open(environment.Config{
		Dir: dir, Size: r.cfg.EnvironmentSize, Time: r.cfg.EnvironmentTime, Most: r.cfg.EnvironmentsMost,
		OpenFiles: hostcheck.MostOpenFiles(), Index: r.cfg.Index, Shared: r.cfg.Shared,
		Builds: meter.NewBuilds().Begin, Fetches: meter.NewFetches().Begin,
		Removed: func(ctx context.Context, name string, bytes int64) {
			removed.Note(ctx, "environment", name, bytes)
		},
	}, e)
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *environments) close() {
	if e.lock != nil {
		_ = e.lock.Close()
	}
}

// get returns base with a tenant's packages, one requirement a line.
func (e *environments) get(ctx context.Context, base *image.Image, tenant, packages string) (*image.Image, error) {
	got, err := e.Get(ctx, environment.Base{
		Name: base.Name, Digest: base.Digest, Env: base.Env, Root: base.Rootfs, Image: hostImage{e.rt, base},
	}, tenant, packages)
	if errors.Is(err, environment.ErrCollected) {
		return nil, image.ErrCollected
	}
	if err != nil {
		return nil, err
	}
	return got.(hostImage).image, nil
}

// Context implements environment.Host.
func (e *environments) Context() context.Context { return e.rt.background.Context() }

// Join implements environment.Host.
func (e *environments) Join() (leave func(), err error) {
	if !e.rt.background.Enter() {
		return nil, background.ErrClosed
	}
	return e.rt.background.Leave, nil
}

// mountPrefix is the prefix of mounts of environments among images.
const mountPrefix = "env-"

// Detach implements environment.Host.
func (e *environments) Detach(name string) (unmount func(), ok bool) {
	return e.rt.images.Detach(mountPrefix + name)
}

// LastUse implements environment.Host.
func (e *environments) LastUse(name string) time.Time {
	return e.rt.images.LastUse(mountPrefix + name)
}

// rest unmounts unused environments over the root file system of a chain of layers.
func (e *environments) rest(chain string) {
	var names []string
	for _, name := range e.rt.images.StackedOn(chain) {
		names = append(names, strings.TrimPrefix(name, mountPrefix))
	}
	e.Rest(names)
}

// hostImage is an image for package environment.
type hostImage struct {
	rt    *Runtime
	image *image.Image
}

var _ environment.BaseImage = hostImage{}

// Hold implements environment.Image.
func (i hostImage) Hold() (release func(), err error) {
	release, err = i.rt.images.Hold(i.image)
	if errors.Is(err, image.ErrCollected) {
		return nil, environment.ErrCollected
	}
	return release, err
}

// workspace is the output directory of programs.
const workspace = "/workspace"

// Run implements environment.BaseImage.
func (i hostImage) Run(ctx context.Context, a runtime.Attempt, look func(*os.Root)) (*runtime.Report, error) {
	s, err := i.rt.makeSlot(ctx, i.rt.levels[policy.Task], i.image, defaultShape)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	rep, err := s.run(ctx, a, true)
	if err != nil || rep.Outcome != job.Succeeded {
		return rep, err
	}
	at := slices.IndexFunc(s.Scratch.Dirs, func(w sandbox.Dir) bool { return w.Path == workspace })
	left, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", s.Scratch.Dirs[at].Dir.Fd()))
	if err != nil {
		return nil, fmt.Errorf("examine the files of a program: %w", err)
	}
	defer left.Close()
	look(left)
	return rep, nil
}

// Mount implements environment.BaseImage.
func (i hostImage) Mount(l environment.Layer) (environment.Image, error) {
	img, err := i.rt.images.Stack(i.image, image.Addition{Name: mountPrefix + l.Name, Digest: l.Digest, Layer: l.Dir, Packages: l.Packages})
	if err != nil {
		return nil, err
	}
	return hostImage{i.rt, img}, nil
}
