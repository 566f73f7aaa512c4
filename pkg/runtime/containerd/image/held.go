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

// Slots, cells, builds on an image and mounted environments hold their image. Only images without
// holders are collected.

// root is the root file system of an image, mounted once on this host. The store's lock guards its
// fields.
type root struct {
	name  string // its key: a chain of layers, or a stacked image
	dir   string
	below *root // the held base of an environment; nil: not an environment

	users int
	used  time.Time // when it last had a user
	gone  bool      // it was collected and is unmounted
}

// ErrCollected means that an image was collected before it could be held. A repeated Get finds or
// recreates it.
var ErrCollected = errors.New("the image has just been collected")

// Hold keeps img until release is called. The error is ErrCollected if it is gone.
func (m *Store) Hold(img *Image) (release func(), err error) {
	if img == nil {
		return nil, ErrCollected
	}
	r := img.root
	if r == nil { // never collected
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

// Holders returns the number of holders of a reference's image at its last use, or -1 if it is not
// mounted.
func (m *Store) Holders(ref string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if img := m.byName[ref].image; img != nil && img.root != nil && !img.root.gone {
		return img.root.users
	}
	return -1
}

// leave ends one use of r. The caller holds the lock.
func (m *Store) leave(r *root) {
	r.users--
	r.used = time.Now()
}

// LastUse returns when the root file system with this key was last used: now if it has a holder,
// the zero time if it is not mounted.
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

// Detach forgets the root file system with this key and all references to it, unless it has
// holders. The caller then calls unmount, which is nil if there is nothing to unmount. free reports
// that there are no holders.
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

// unmount unmounts a detached root file system. After a failure the mount is empty, and ends with
// the worker.
func (r *root) unmount() {
	if err := errors.Join(mount.UnmountAll(r.dir, unix.MNT_DETACH), os.Remove(r.dir)); err != nil {
		slog.Warn("root file system of an image not unmounted", "error", fmt.Errorf("%s: %w", r.dir, err))
	}
}
