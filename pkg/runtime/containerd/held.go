package containerd

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

// What is made of an image holds it: slots and cells, the builds of environments on
// it and the environments that are mounted. Only what nobody holds is collected.

// root is the root file system of an image, mounted once on this host. Its fields are
// guarded by the lock of images.
type root struct {
	dir   string
	below *root // what an environment is stacked on, and holds; nil: it is none

	users int
	used  time.Time // when it last had one
	gone  bool      // it was collected, and is no file system any more
}

// errCollected says that an image was collected between its being found and its being
// held. Whoever asks again finds it, or has it made.
var errCollected = errors.New("the image has just been collected")

// hold keeps img where it is until release is called. The error is errCollected if it
// is there no more.
func (m *images) hold(img *image) (release func(), err error) {
	if img == nil {
		return nil, errCollected
	}
	r := img.root
	if r == nil { // nobody collects it
		return func() {}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.gone {
		return nil, errCollected
	}
	r.users++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leave(r)
	}), nil
}

// leave ends one use of r; the caller holds the lock.
func (m *images) leave(r *root) {
	r.users--
	r.used = time.Now()
}

// detach forgets the root file system that is kept under name, unless somebody holds
// it, and whatever leads to it. The caller unmounts it.
func (m *images) detach(name string) (r *root, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r = m.roots[name]
	if r == nil {
		return nil, true
	}
	if r.users > 0 {
		return nil, false
	}
	r.gone = true
	if r.below != nil {
		m.leave(r.below)
	}
	delete(m.roots, name)
	delete(m.lowers, r.dir)
	for ref, e := range m.byName {
		if e.image != nil && e.image.root == r {
			delete(m.byName, ref)
		}
	}
	for digest, img := range m.known {
		if img.root == r {
			delete(m.known, digest)
		}
	}
	return r, true
}

// unmount ends a root file system that was detached. A mount that stays is empty to
// whoever comes, and goes with the worker.
func (r *root) unmount() {
	if r == nil {
		return
	}
	if err := errors.Join(mount.UnmountAll(r.dir, unix.MNT_DETACH), os.Remove(r.dir)); err != nil {
		slog.Warn("cannot unmount the root file system of an image", "error", fmt.Errorf("%s: %w", r.dir, err))
	}
}
