package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/containerd/overlay"
)

// mountpoints are the mount points in every sandbox. The root file system is read-only and shared,
// so a container runtime could not create them later.
var mountpoints = []string{"workspace", "tmp", "proc", "dev", "sys", "run/assay"}

// mountRoot mounts the file system of a chain of layers once for all containers. Its two snapshots
// persist between runs.
func (m *Store) mountRoot(ctx context.Context, chain string) (*root, error) {
	if r := m.mounted(chain); r != nil {
		return r, nil
	}
	m.mounting.Lock()
	defer m.mounting.Unlock()
	if r := m.mounted(chain); r != nil {
		return r, nil
	}
	base, err := m.base(ctx, chain)
	if err != nil {
		return nil, err
	}
	sn := m.client.SnapshotService(Snapshotter)
	view := m.view(chain)
	mounts, err := sn.View(ctx, view, base, snapshots.WithLabels(keep))
	if errdefs.IsAlreadyExists(err) {
		mounts, err = sn.Mounts(ctx, view)
	}
	if err != nil {
		return nil, fmt.Errorf("view of the root file system: %w", err)
	}
	dir := filepath.Join(m.dir, strings.ReplaceAll(chain, ":", "-"))
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	if err := mount.All(mounts, dir); err != nil {
		return nil, fmt.Errorf("mount the root file system: %w", err)
	}
	if err := checkMountpoints(dir); err != nil {
		return nil, errors.Join(err, mount.UnmountAll(dir, unix.MNT_DETACH))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roots[chain], m.lowers[dir] = &root{name: chain, dir: dir, used: time.Now()}, overlay.LowerDirs(mounts)
	return m.roots[chain], nil
}

func (m *Store) mounted(chain string) *root {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roots[chain]
}

// baseName returns the name of the snapshot that adds the mount points and the accounts to a chain
// of layers. All workers of one containerd share it.
func baseName(chain string) string { return "assay.dev/base/2/" + chain }

// formerBaseName is the name that earlier releases used for a snapshot without accounts.
func formerBaseName(chain string) string { return "assay.dev/base/" + chain }

// view returns the name of this runtime's view of the base. The base cannot be removed while a view
// exists.
func (m *Store) view(chain string) string { return baseName(chain) + "/view/" + m.instance }

// formerView returns the name of the view of the former base.
func (m *Store) formerView(chain string) string { return formerBaseName(chain) + "/view/" + m.instance }

// layers returns the directories behind a mounted root file system.
func (m *Store) layers(rootfs string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.lowers[rootfs]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("%s is no root file system that is mounted here", rootfs)
}

// keep protects a snapshot from containerd's garbage collection.
var keep = map[string]string{"containerd.io/gc.root": "assay.dev"}

// base returns the snapshot that adds the mountpoints and the accounts to a chain of layers.
func (m *Store) base(ctx context.Context, chain string) (string, error) {
	name := baseName(chain)
	sn := m.client.SnapshotService(Snapshotter)
	if _, err := sn.Stat(ctx, name); err == nil {
		return name, nil
	} else if !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("base snapshot: %w", err)
	}
	// The key is unique to this runtime, so that two concurrent starts do not share a snapshot. The
	// first commit wins.
	active := name + "/" + filepath.Base(m.dir) + m.instance
	if err := sn.Remove(ctx, active); err != nil && !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("base snapshot: %w", err)
	}
	mounts, err := sn.Prepare(ctx, active, chain, snapshots.WithLabels(keep))
	if err != nil {
		return "", fmt.Errorf("base snapshot: %w", err)
	}
	err = mount.WithTempMount(ctx, mounts, func(root string) error {
		if err := makeDirs(root, mountpoints); err != nil {
			return lacksRoom(err)
		}
		return addAccounts(root)
	})
	if err == nil {
		err = sn.Commit(ctx, name, active, snapshots.WithLabels(keep))
	}
	if err != nil {
		_ = sn.Remove(ctx, active)
		if errdefs.IsAlreadyExists(err) {
			return name, nil
		}
		var no *job.FieldError
		if errors.As(err, &no) { // the rest contains paths of this host
			return "", no
		}
		return "", fmt.Errorf("base snapshot: %w", err)
	}
	return name, nil
}

// makeDirs creates directories below root without following the image's symbolic links out of it.
func makeDirs(root string, dirs []string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, d := range dirs {
		if err := r.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make /%s: %w", d, err)
		}
	}
	return nil
}

// checkMountpoints rejects a root in which a mount point, or one of its parents, is a link.
// Otherwise a mount, or an access from outside, could leave the image.
func checkMountpoints(root string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, d := range mountpoints {
		for ; d != "."; d = path.Dir(d) {
			if info, err := r.Lstat(d); err != nil || !info.IsDir() {
				return noRoom(d)
			}
		}
	}
	return nil
}

// lacksRoom blames the image for an error in creating the mount points, unless the disk is full or
// fails.
func lacksRoom(err error) error {
	for _, ours := range []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, ours) {
			return err
		}
	}
	return job.Invalid("image", "it has a file or a link at the mount point of a sandbox directory: %v", err)
}

func noRoom(dir string) error {
	return job.Invalid("image", "it has no directory /%s to mount on, or a link there", dir)
}

// ExtraMountpoints mounts directories for unusual paths over rootfs, at dir/rootfs.
func ExtraMountpoints(dir, rootfs string, paths []string) (string, error) {
	points, target := filepath.Join(dir, "points"), filepath.Join(dir, "rootfs")
	if err := errors.Join(os.Mkdir(points, 0o755), os.Mkdir(target, 0o755)); err != nil {
		return "", err
	}
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], "/")
	}
	if err := makeDirs(points, paths); err != nil {
		return "", err
	}
	if err := overlay.Mount(target, []string{overlay.Escape(points), overlay.Escape(rootfs)}); err != nil {
		return "", fmt.Errorf("add mountpoints: %w", err)
	}
	return target, nil
}

// Close unmounts every root file system and removes this store's views of them. A remaining view
// keeps its image until this worker returns.
func (m *Store) Close(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	sn := m.client.SnapshotService(Snapshotter)
	var errs []error
	for chain, r := range m.roots {
		errs = append(errs, mount.UnmountAll(r.dir, unix.MNT_DETACH), os.Remove(r.dir))
		delete(m.roots, chain)
		if r.below != nil { // an environment, which has no snapshot
			continue
		}
		if err := sn.Remove(ctx, m.view(chain)); err != nil && !errdefs.IsNotFound(err) {
			slog.WarnContext(ctx, "image snapshot not removed", "error", err)
		}
	}
	clear(m.byName)
	return errors.Join(errs...)
}
