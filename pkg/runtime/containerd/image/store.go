package image

import (
	"context"
	"errors"
	"fmt"
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

// imageTTL is how long a name keeps meaning the same image before containerd is
// asked again: short enough to pick up a new import, long enough to cost nothing.
const imageTTL = 5 * time.Second

// DefaultMost bounds an image that is pulled where a configuration says nothing else.
const DefaultMost = 8 * job.GiB

// Snapshotter is what keeps the layers of images in a containerd. What is stacked on them, and what sandboxes write over
// them, is made of its directories.
const Snapshotter = "overlayfs"

// Config says which images a store has, and what it needs of whoever opens it.
type Config struct {
	Client   *client.Client // of the namespace of the images; the store does not close it
	Dir      string         // in which root file systems are mounted, this store's alone
	Instance string         // that no other store of this containerd has, and that stays the same from run to run

	Registries *registry.Access // that images are pulled from; nil: none
	Always     []string         // names that they are asked for again, a minute after they were; as Trusted
	Trusted    []string         // images of registries that are as good as the operator's own
	Most       job.Size         // bounds an image that is pulled
	Space      job.Size         // and all of those together

	// Rest has whatever is stacked on the root file system of a chain of layers let go of
	// it, if nobody uses it; nil: nothing is stacked.
	Rest func(chain string)
	// Spawn runs what is done beside those who ask, until the context that it gets ends,
	// and reports whether it does; nil: such things are not done.
	Spawn func(func(context.Context)) bool
}

// Store finds, pulls, prepares and collects images.
type Store struct {
	client     *client.Client
	dir        string // of root file systems
	instance   string
	registries *registry.Access
	always     []string
	trusted    []string
	most       int64 // bytes of one that is pulled
	space      int64 // and of all of them, see collect
	rest       func(chain string)
	spawn      func(func(context.Context)) bool

	pulls      chan struct{} // bounds how many are pulled at once
	removed    meter.Removed
	pulling    *meter.Fetching
	collecting sync.Mutex            // held by collect
	facts      map[string]imageFacts // by name and digest, of collect's
	full       atomic.Bool           // they take more than they may: all were in use
	mounting   sync.Mutex            // held while a root file system is mounted or removed

	names names
	list  list

	group  singleflight.Group
	mu     sync.Mutex
	byName map[string]entry
	asked  map[string]time.Time // when a registry last said what a name means, of late
	known  map[string]*Image    // by digest
	roots  map[string]*root     // that are mounted, by their names
	lowers map[string][]string  // mounted root file system → its layers, the top first
}

// Check says which setting of c is wrong.
func (c Config) Check() error {
	if err := checkTrusted(c.Trusted); err != nil {
		return fmt.Errorf("trusted images: %w", err)
	}
	return nil
}

// New returns the images of a containerd, of which nothing is asked yet. The caller has
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

// entry is what a name meant when it was last asked for: an image, or the
// trouble of its registry. Jobs by the thousand may name one that does not
// answer, and each would hold a slot while it waits for that.
type entry struct {
	image *Image
	err   error // wraps runtime.ErrImage
	until time.Time
}

// Get returns the image that a job names, ready to be used. The error wraps
// job.ErrInvalid if there is none.
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
	// Whoever waits shares the work, but gives up on its own terms.
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

// Known returns an image that Get or Stack has returned before, by its digest; nil if it
// was collected.
func (m *Store) Known(digest string) *Image {
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
		err = fmt.Errorf("image %s: %w", ref, err)
		if errors.Is(err, runtime.ErrImage) {
			m.failed(ref, err)
		}
		return nil, err
	}
	out, err := m.prepare(ctx, ref, img)
	if errdefs.IsNotFound(err) { // of what was there a moment ago
		err = fmt.Errorf("%w: %w", ErrCollected, err)
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
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

// failed notes that ref cannot be had for now, and forgets older such notes.
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

// prepare unpacks img if it is not yet and mounts its root file system.
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

// Forget has the next Get of a name ask containerd what it means.
func (m *Store) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, name)
}
