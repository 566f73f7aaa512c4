package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
)

// addition is a layer to stack on an image.
type addition struct {
	name     string   // that its root file system is kept under, and what its directory is called
	digest   string   // that names what comes of it
	layer    string   // directory of what it adds
	packages []string // that it adds, as requirements with hashes
}

// Stack returns base with a layer on top, which it mounts unless that was done. It is
// one overlay, not one over another: the kernel stacks two, and boxes need a second.
// The caller holds base; what comes of it does from then on, until it is detached.
func (m *images) Stack(base *image, add addition) (*image, error) {
	layers, err := m.layers(base.rootfs)
	if err != nil {
		return nil, err
	}
	img := &image{
		name: base.name, digest: add.digest, env: base.env, dir: base.dir, user: base.user, own: base.own,
		rootfs: filepath.Join(m.dir, add.name), packages: add.packages,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Two additions may come to the same.
	if have := m.known[img.digest]; have != nil {
		return have, nil
	}
	if m.roots[add.name] == nil {
		if err := os.MkdirAll(img.rootfs, 0o711); err != nil {
			return nil, err
		}
		lower := append([]string{escapeOverlay(add.layer)}, layers...)
		over := mount.Mount{Type: "overlay", Source: "overlay", Options: []string{"ro", "lowerdir=" + strings.Join(lower, ":")}}
		if err := over.Mount(img.rootfs); err != nil {
			return nil, fmt.Errorf("mount an environment: %w", err)
		}
		m.roots[add.name], m.lowers[img.rootfs] = &root{dir: img.rootfs, below: base.root, used: time.Now(), noted: time.Now()}, lower
		if base.root != nil {
			base.root.users++ // until it is unmounted
		}
	}
	img.root = m.roots[add.name]
	m.known[img.digest] = img
	return img, nil
}

// StackedOn returns the names of the root file systems that are stacked on that of a
// chain of layers.
func (m *images) StackedOn(chain string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	base := m.roots[chain]
	if base == nil {
		return nil
	}
	for name, r := range m.roots {
		if r.below == base {
			names = append(names, name)
		}
	}
	return names
}
