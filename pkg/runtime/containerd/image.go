package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sync/singleflight"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// localDomain is where images live that are imported and never pulled.
const localDomain = "assay.local"

// imageTTL is how long a name keeps meaning the same image before containerd is
// asked again: short enough to pick up a new import, long enough to cost nothing.
const imageTTL = 5 * time.Second

// image is an image that containers can be made of.
type image struct {
	name   string   // normalised reference
	digest string   // of the manifest or index that the name means
	env    []string // of its configuration
	dir    string   // that commands start in by its configuration; empty: it says none that they may enter
	user   string   // that its configuration names
	rootfs string   // its root file system, mounted read-only on this host

	// own is the operator's image that this one is, or adds packages to. Only from
	// its root starts what has a capability or is forked for others; nil: a tenant
	// brought the image, and there is none. See ADR 0013.
	own *image

	root *root // that is mounted at rootfs; nil: it is never collected

	// Guarded by the lock of images:
	others map[string]*others // by directory, of what was written over
	empty  map[string]bool    // directories of which it has nothing, of those that were asked for

	packages []string // that an environment adds, as requirements with hashes
}

// images finds, pulls and prepares images.
type images struct {
	client      *client.Client
	snapshotter string
	dir         string   // of root file systems
	trusted     []string // see Config.TrustedImages
	registries  []registry
	access      access
	most        int64 // bytes of one that is pulled
	space       int64 // and of all of them, see collect

	pulls      chan struct{}      // bounds how many are pulled at once
	rest       func(chain string) // has environments let go of a root file system that they do not use
	collected  collected
	pulling    *fetching
	collecting sync.Mutex            // held by collect
	facts      map[string]imageFacts // by name and digest, of collect's
	full       atomic.Bool           // they take more than they may: all were in use
	mounting   sync.Mutex            // held while a root file system is mounted or removed

	group  singleflight.Group
	mu     sync.Mutex
	byName map[string]imageEntry
	asked  map[string]time.Time // when a registry last said what a name means, of late
	known  map[string]*image    // by digest
	roots  map[string]*root     // that are mounted, by chain id or name of an environment
	lowers map[string][]string  // mounted root file system → its layers, the top first
}

// imageEntry is what a name meant when it was last asked for: an image, or the
// trouble of its registry. Jobs by the thousand may name one that does not
// answer, and each would hold a slot while it waits for that.
type imageEntry struct {
	image *image
	err   error // wraps runtime.ErrImage
	until time.Time
}

// imageName normalises a job's image: a bare name is one of our own images,
// anything else is a registry reference.
func imageName(name string) (string, error) {
	if !strings.Contains(name, "/") {
		name = localDomain + "/" + name
	}
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", job.Invalid("image", "%q is not an image reference such as python or docker.io/library/python:3.12", name)
	}
	return ref.String(), nil
}

// get returns the image that a job names, ready to be used. The error wraps
// job.ErrInvalid if there is none.
func (m *images) get(ctx context.Context, name string) (*image, error) {
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
		return r.Val.(*image), nil
	}
}

// of returns an image that get has returned before.
func (m *images) of(digest string) *image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[digest]
}

func (m *images) resolve(ctx context.Context, ref string) (*image, error) {
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
		err = fmt.Errorf("%w: %w", errCollected, err)
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if out.root.gone {
		return nil, errCollected
	}
	if have := m.known[out.digest]; have != nil && have.own != nil { // the same content under another name
		out.own = out
	}
	m.byName[ref] = imageEntry{image: out, until: time.Now().Add(imageTTL)}
	m.known[out.digest] = out
	return out, nil
}

// failed notes that ref cannot be had for now, and forgets older such notes.
func (m *images) failed(ref string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for name, e := range m.byName {
		if e.err != nil && now.After(e.until) {
			delete(m.byName, name)
		}
	}
	m.byName[ref] = imageEntry{err: err, until: now.Add(imageTTL)}
}

func (m *images) pull(ctx context.Context, ref string) (client.Image, error) {
	if strings.HasPrefix(ref, localDomain+"/") {
		return nil, job.Invalid("image", "there is no image %s on this worker; import it, or name one of a registry", ref)
	}
	from, ok := registryOf(m.registries, ref)
	if !ok {
		host, _, _ := strings.Cut(ref, "/")
		return nil, job.Invalid("image", "there is no image %s on this worker, and its operator lets none be pulled from registry %s (--image-registries)", ref, host)
	}
	select {
	case m.pulls <- struct{}{}:
		defer func() { <-m.pulls }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: others are pulled", runtime.ErrImage)
	}
	if err := m.makeRoom(ctx); err != nil {
		return nil, err
	}
	ctx, counted := m.pulling.begin(ctx, ref)
	img, bytes, err := m.fetch(ctx, ref, from)
	counted(bytes, err)
	if err != nil {
		return nil, err
	}
	if _, err := m.collect(ctx, ref); err != nil {
		slog.WarnContext(ctx, "cannot make room after an image was pulled", "image", ref, "error", err)
	}
	return img, nil
}

// fetch pulls an image from its registry, and returns how many compressed bytes it has.
func (m *images) fetch(ctx context.Context, ref string, from registry) (client.Image, int64, error) {
	way, done := newGuard(m.access.lists(m.registries), m.most+manifestMost)
	defer done()
	logins, err := m.access.logins(ref)
	if err != nil {
		return nil, 0, pullError(ref, err)
	}
	size := &imageSize{store: m.client.ContentStore(), most: m.most}
	img, err := m.client.Pull(ctx, ref, client.WithPullUnpack, client.WithPullSnapshotter(m.snapshotter),
		client.WithResolver(resolver(from, m.access.of(ref), logins, way)), client.WithImageHandlerWrapper(size.wrap), client.WithPullLabel(pulledLabel, "1"))
	if err != nil {
		if notLetIn(err) && someOf(logins) { // the operator's to mend, not the job's
			err = fmt.Errorf("%w: %w", errNotTaken, err)
		}
		return nil, 0, pullError(ref, err)
	}
	m.answered(ref)
	size.mu.Lock()
	defer size.mu.Unlock()
	return img, size.declared, nil
}

// pullError tells whose trouble it is that ref could not be pulled: job.ErrInvalid
// if the name is wrong, runtime.ErrImage if it may work another time. What a
// registry answered is in the worker's log only: it may come from elsewhere.
func pullError(ref string, err error) error {
	if err == nil {
		return nil
	}
	slog.Warn("an image could not be pulled", "image", ref, "error", err)
	var dns *net.DNSError
	var no refusal
	switch {
	case errors.Is(err, errCredentials):
		return fmt.Errorf("%w: %w", runtime.ErrImage, errCredentials)
	case errors.As(err, &no):
		return job.Invalid("image", "%s is not pulled: %s", ref, no)
	case errdefs.IsNotFound(err):
		return job.Invalid("image", "the registry has no %s", ref)
	case errors.Is(err, errNotTaken):
		return fmt.Errorf("%w: %w", runtime.ErrImage, errNotTaken)
	case notLetIn(err):
		return job.Invalid("image", "the registry does not let us pull %s", ref)
	case errors.As(err, &dns) && dns.IsNotFound:
		return job.Invalid("image", "there is no registry to pull %s from: it has no address", ref)
	}
	if unpacking(err) {
		return unpackError(err)
	}
	return fmt.Errorf("%w: %s", runtime.ErrImage, pullKind(err))
}

// prepare unpacks img if it is not yet and mounts its root file system.
func (m *images) prepare(ctx context.Context, ref string, img client.Image) (*image, error) {
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
	unpacked, err := img.IsUnpacked(ctx, m.snapshotter)
	if err != nil {
		return nil, err
	}
	if !unpacked {
		if err := img.Unpack(ctx, m.snapshotter); errdefs.IsNotFound(err) {
			return nil, m.absent(ctx, ref, img, err)
		} else if err != nil {
			return nil, unpackError(err)
		}
	}
	root, err := m.mountRoot(ctx, identity.ChainID(layers).String())
	if err != nil {
		return nil, err
	}
	out := &image{name: ref, digest: img.Target().Digest.String(), env: spec.Config.Env, rootfs: root.dir, root: root,
		dir: workingDir(root.dir, spec.Config.WorkingDir), user: spec.Config.User}
	if m.operators(ref, img.Labels()) {
		out.own = out
	}
	return out, nil
}

// operators reports whether the operator vouches for what the name means here: it is
// never pulled, came from an archive of the worker's, or is one that they trust.
func (m *images) operators(ref string, labels map[string]string) bool {
	if strings.HasPrefix(ref, localDomain+"/") || labels[archiveLabel] != "" {
		return true
	}
	return slices.ContainsFunc(m.trusted, func(t string) bool {
		rest, ok := strings.CutPrefix(ref, t)
		return ok && (rest == "" || strings.HasSuffix(t, "/") || rest[0] == ':' || rest[0] == '@')
	})
}

// checkTrusted says what is wrong with names of images that the operator trusts.
func checkTrusted(names []string) error {
	for _, name := range names {
		full := strings.TrimSuffix(name, "/")
		if named, err := reference.ParseNormalizedNamed(full); err != nil || named.String() != full && !strings.HasSuffix(name, "/") {
			return fmt.Errorf("%q is not the whole name of an image, such as docker.io/library/python, or the beginning of names up to a slash", name)
		}
	}
	return nil
}
