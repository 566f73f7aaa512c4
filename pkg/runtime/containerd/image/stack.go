package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
)

// Addition is a layer to stack on an image.
type Addition struct {
	Name     string   // key of its root file system, and name of its directory
	Digest   string   // digest of the result
	Layer    string   // directory of the added files
	Packages []string // added packages, as requirements with hashes
}

// Stack returns base with a layer on top, mounted if necessary. The mount is one overlay rather
// than two nested ones: the kernel supports a depth of two, and boxes need the second. The caller
// holds base; the result then holds it until it is detached.
func (m *Store) Stack(base *Image, add Addition) (*Image, error) {
	layers, err := m.layers(base.Rootfs)
	if err != nil {
		return nil, err
	}
	img := &Image{
		Name: base.Name, Digest: add.Digest, Env: base.Env, Dir: base.Dir, User: base.User, Login: base.Login, Own: base.Own,
		Rootfs: filepath.Join(m.dir, add.Name), Packages: add.Packages,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Two additions may have the same result.
	if have := m.known[img.Digest]; have != nil {
		return have, nil
	}
	if m.roots[add.Name] == nil {
		if err := os.MkdirAll(img.Rootfs, 0o711); err != nil {
			return nil, err
		}
		lower := append([]string{overlay.Escape(add.Layer)}, layers...)
		over := mount.Mount{Type: "overlay", Source: "overlay", Options: []string{"ro", "lowerdir=" + strings.Join(lower, ":")}}
		if err := over.Mount(img.Rootfs); err != nil {
			return nil, fmt.Errorf("mount an environment: %w", err)
		}
		m.roots[add.Name], m.lowers[img.Rootfs] = &root{name: add.Name, dir: img.Rootfs, below: base.root, used: time.Now()}, lower
		if base.root != nil {
			base.root.users++ // until it is unmounted
		}
	}
	img.root = m.roots[add.Name]
	m.known[img.Digest] = img
	return img, nil
}

// StackedOn returns the keys of the root file systems stacked on the one of a chain of layers.
func (m *Store) StackedOn(chain string) (names []string) {
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
