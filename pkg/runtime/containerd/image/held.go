package image

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
// guarded by the lock of the store.
type root struct {
	name  string // that it is kept under: of a chain of layers, or of what was stacked
	dir   string
	below *root // what an environment is stacked on, and holds; nil: it is none

	users int
	used  time.Time // when it last had one
	gone  bool      // it was collected, and is no file system any more
}

// ErrCollected says that an image was collected between its being found and its being
// held. Whoever asks again finds it, or has it made.
var ErrCollected = errors.New("the image has just been collected")

// Hold keeps img where it is until release is called. The error is ErrCollected if it
// is there no more.
func (m *Store) Hold(img *Image) (release func(), err error) {
	if img == nil {
		return nil, ErrCollected
	}
	r := img.root
	if r == nil { // nobody collects it
		return func() {}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.gone {
		return nil, ErrCollected
	}
	r.users++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leave(r)
	}), nil
}

// Holders returns how many hold the image that a normalised reference meant when it was last
// asked for, -1 if none is mounted.
func (m *Store) Holders(ref string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if img := m.byName[ref].image; img != nil && img.root != nil && !img.root.gone {
		return img.root.users
	}
	return -1
}

// leave ends one use of r; the caller holds the lock.
func (m *Store) leave(r *root) {
	r.users--
	r.used = time.Now()
}

// LastUse is when the root file system that is kept under name was last used: now if
// somebody holds it, the zero time if it is not mounted.
func (m *Store) LastUse(name string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.roots[name]
	switch {
	case r == nil:
		return time.Time{}
	case r.users > 0:
		return time.Now()
	}
	return r.used
}

// Detach forgets the root file system that is kept under name, unless somebody holds
// it, and whatever leads to it. The caller calls unmount then; it is nil if there is
// nothing to unmount. free says that nobody holds it.
func (m *Store) Detach(name string) (unmount func(), free bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.roots[name]
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
	return r.unmount, true
}

// unmount ends a root file system that was detached. A mount that stays is empty to
// whoever comes, and goes with the worker.
func (r *root) unmount() {
	if err := errors.Join(mount.UnmountAll(r.dir, unix.MNT_DETACH), os.Remove(r.dir)); err != nil {
		slog.Warn("cannot unmount the root file system of an image", "error", fmt.Errorf("%s: %w", r.dir, err))
	}
}
