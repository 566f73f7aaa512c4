package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/registry"
	"github.com/assay-run/assay/pkg/runtime/meter"
)

// imageTTL is how long a name's image is cached before containerd is queried again: short enough to
// detect a new import, long enough to cost nothing.
const imageTTL = 5 * time.Second

// DefaultMost is the default size limit of a pulled image.
const DefaultMost = 8 * job.GiB

// Snapshotter is the name of the snapshotter for images. Overlays on its directories implement
// stacked layers and the sandboxes' writes.
const Snapshotter = "overlayfs"

// Config configures a Store.
type Config struct {
	Client   *client.Client // in the namespace of the images; the store does not close it
	Dir      string         // directory for mounts of root file systems, exclusive to this store
	Instance string         // unique in this containerd, and constant between runs

	Registries *registry.Access // registries for pulls; nil: none
	Always     []string         // names to check at their registry again after a minute; format of Trusted
	Trusted    []string         // images of registries that count as the operator's own
	Most       job.Size         // size limit of a pulled image
	Space      job.Size         // limit of their total size

	// Rest unmounts unused file systems stacked on a chain of layers. Nil: nothing is stacked.
	Rest func(chain string)
	// Spawn runs background tasks until their context ends, and reports whether it does. Nil: no
	// background tasks.
	Spawn func(func(context.Context)) bool
}

// Store finds, pulls, prepares and collects images.
type Store struct {
	client     *client.Client
	dir        string // for root file systems
	instance   string
	registries *registry.Access
	always     []string
	trusted    []string
	most       int64 // size limit of a pulled image in bytes
	space      int64 // limit of their total size, see collect
	rest       func(chain string)
	spawn      func(func(context.Context)) bool

	pulls      chan struct{} // limits concurrent pulls
	removed    meter.Removed
	pulling    *meter.Fetching
	collecting sync.Mutex            // held by collect
	facts      map[string]imageFacts // by name and digest, for collect
	full       atomic.Bool           // above the limit, because all images were in use
	mounting   sync.Mutex            // held during a mount or removal of a root file system

	names names
	list  list

	group  singleflight.Group
	mu     sync.Mutex
	byName map[string]entry
	asked  map[string]time.Time // recent times of registries' responses by name
	known  map[string]*Image    // by digest
	roots  map[string]*root     // mounted root file systems, by key
	lowers map[string][]string  // mounted root file system → its layers, top first
}

// Check returns an error for a wrong setting.
func (c Config) Check() error {
	if err := checkTrusted(c.Trusted); err != nil {
		return fmt.Errorf("trusted images: %w", err)
	}
	return nil
}

// New returns the store for the images of a containerd without contacting it. The caller has
// checked c.
func New(c Config) *Store {
	m := &Store{
		client: c.Client, dir: c.Dir, instance: c.Instance, registries: c.Registries, always: c.Always, trusted: c.Trusted,
		most: int64(c.Most), space: int64(c.Space), rest: c.Rest, spawn: c.Spawn,
		pulls: make(chan struct{}, pullsAtOnce), removed: meter.NewRemoved(), pulling: meter.NewPulls(),
		byName: map[string]entry{}, asked: map[string]time.Time{}, known: map[string]*Image{}, roots: map[string]*root{}, lowers: map[string][]string{},
	}
	if m.registries == nil {
		m.registries = new(registry.Access)
	}
	if m.rest == nil {
		m.rest = func(string) {}
	}
	if m.spawn == nil {
		m.spawn = func(func(context.Context)) bool { return false }
	}
	return m
}

// entry is the cached result for a name: an image, or the error of its registry. Otherwise
// thousands of jobs for an unreachable registry would each hold a slot while they wait.
type entry struct {
	image *Image
	err   error // wraps runtime.ErrImage
	until time.Time
}

// Get returns a job's image, ready for use. The error wraps job.ErrInvalid if it does not exist.
func (m *Store) Get(ctx context.Context, name string) (*Image, error) {
	ref, err := imageName(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	e, ok := m.byName[ref]
	m.mu.Unlock()
	if ok && time.Now().Before(e.until) {
		return e.image, e.err
	}
	// Callers share the work, but each with its own context.
	shared := m.group.DoChan(ref, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
		defer cancel()
		return m.resolve(ctx, ref)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("image %s: %w", ref, context.Cause(ctx))
	case r := <-shared:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*Image), nil
	}
}

// Lookup returns an image from an earlier Get or Stack by its digest, or nil if it was collected.
func (m *Store) Lookup(digest string) *Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[digest]
}

func (m *Store) resolve(ctx context.Context, ref string) (*Image, error) {
	img, err := m.client.GetImage(ctx, ref)
	if errdefs.IsNotFound(err) || err == nil && m.stale(ref, img) {
		img, err = m.pull(ctx, ref)
	}
	if err != nil {
		err = named(ref, err)
		if errors.Is(err, runtime.ErrImage) {
			m.failed(ref, err)
		}
		return nil, err
	}
	out, err := m.prepare(ctx, ref, img)
	if errdefs.IsNotFound(err) { // it was removed a moment ago
		err = fmt.Errorf("%w: %w", ErrCollected, err)
	}
	if err != nil {
		return nil, named(ref, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if out.root.gone {
		return nil, ErrCollected
	}
	if have := m.known[out.Digest]; have != nil && have.Own != nil { // the same content under another name
		out.Own = out
	}
	m.byName[ref] = entry{image: out, until: time.Now().Add(imageTTL)}
	m.known[out.Digest] = out
	return out, nil
}

// named adds the name of an image to an error, unless the error has it. An error about the field image has the prefix
// "image: " already.
func named(ref string, err error) error {
	field := new(job.FieldError)
	switch {
	case !errors.As(err, &field) || field.Field != "image" || errors.Is(err, ErrCollected):
		return fmt.Errorf("image %s: %w", ref, err)
	case strings.Contains(field.Problem, ref):
		return field
	}
	return job.Invalid("image", "%s: %s", ref, field.Problem)
}

// failed records that ref is unavailable for now, and drops older records.
func (m *Store) failed(ref string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for name, e := range m.byName {
		if e.err != nil && now.After(e.until) {
			delete(m.byName, name)
		}
	}
	m.byName[ref] = entry{err: err, until: now.Add(imageTTL)}
}

// prepare unpacks img if necessary and mounts its root file system.
func (m *Store) prepare(ctx context.Context, ref string, img client.Image) (*Image, error) {
	layers, err := img.RootFS(ctx)
	if errdefs.IsNotFound(err) {
		return nil, m.absent(ctx, ref, img, err)
	}
	if err != nil {
		return nil, unpackError(err)
	}
	spec, err := img.Spec(ctx)
	if err != nil {
		return nil, unpackError(err)
	}
	if err := checkEnvironment(spec.Config.Env); err != nil {
		return nil, err
	}
	unpacked, err := img.IsUnpacked(ctx, Snapshotter)
	if err != nil {
		return nil, err
	}
	if !unpacked {
		if err := img.Unpack(ctx, Snapshotter); errdefs.IsNotFound(err) {
			return nil, m.absent(ctx, ref, img, err)
		} else if err != nil {
			return nil, unpackError(err)
		}
	}
	root, err := m.mountRoot(ctx, identity.ChainID(layers).String())
	if err != nil {
		return nil, err
	}
	out := &Image{Name: ref, Digest: img.Target().Digest.String(), Env: spec.Config.Env, Rootfs: root.dir, root: root,
		Dir: workingDir(root.dir, spec.Config.WorkingDir), User: spec.Config.User, Login: userName(root.dir)}
	if m.operators(ref, img.Labels()) {
		out.Own = out
	}
	return out, nil
}

// Forget makes the next Get of a name query containerd.
func (m *Store) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, name)
}
