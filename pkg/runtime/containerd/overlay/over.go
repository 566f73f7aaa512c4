package overlay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// A writable path that exists in the image starts with the image's content: an overlay with its
// upper directory in the job's scratch, so that changes count like other writes. The layers are
// mounted with mapped ids. Files of the directory's owner belong to the program, so that it may
// change files of root, the usual user in containers. Files of other owners are changed one by one.

// over is a writable path with a directory in the image that is not empty.
type over struct {
	path     string
	uid, gid int // of the image's directory
	others   *others
}

// overFiles is the number of an overlay's own inodes in a scratch, besides the parent directories
// of the path.
const overFiles = 8

// look reports whether the directory has content, and sets its owner.
func (o *over) look(root *os.File) (bool, error) {
	fd, err := unix.Openat2(int(root.Fd()), strings.TrimPrefix(o.path, "/"), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	dir := os.NewFile(uintptr(fd), o.path)
	defer dir.Close()
	if _, err := dir.Readdirnames(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	}
	info, err := dir.Stat()
	if err != nil {
		return false, err
	}
	st := info.Sys().(*syscall.Stat_t)
	o.uid, o.gid = int(st.Uid), int(st.Gid)
	return true, nil
}

// Overlays are the initial content of a scratch. Nil means none.
type Overlays struct {
	list   []over
	layers []string
}

// Of returns the initial content of a layout's scratch in an image, or nil. The image's root file
// system is mounted at rootfs, and beneath returns its directories, top first. The error wraps
// job.ErrInvalid if the image does not support the layout.
func Of(rootfs string, seen *DirCache, l sandbox.Layout, beneath func() []string) (*Overlays, error) {
	list, err := seen.overs(rootfs, l)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &Overlays{list, beneath()}, nil
}

// Inodes returns the number of a scratch's inodes that the overlays use.
func (o *Overlays) Inodes() (n int) {
	if o == nil {
		return 0
	}
	for _, v := range o.list {
		n += overFiles + strings.Count(v.path, "/") + v.others.inodes
	}
	return n
}

// find returns the overlay of a path, or nil.
func (o *Overlays) find(path string) *over {
	if o == nil {
		return nil
	}
	for i := range o.list {
		if o.list[i].path == path {
			return &o.list[i]
		}
	}
	return nil
}

// Paths returns the paths with initial content.
func (o *Overlays) Paths() (paths []string) {
	if o == nil {
		return nil
	}
	for _, v := range o.list {
		paths = append(paths, v.path)
	}
	return paths
}

// Has reports whether a path has initial content.
func (o *Overlays) Has(path string) bool { return o.find(path) != nil }

// Lay mounts the directory of a path on target, with writes going to the directory upper of a
// scratch. uid is the program's host user, and stage a temporary directory.
func (o *Overlays) Lay(path, upper, target, stage string, uid int) (err error) {
	v := o.find(path)
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("assay", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,nr_inodes=1024,mode=0700"); err != nil {
		return errors.Join(fmt.Errorf("mount a place for layers: %w", err), os.Remove(stage))
	}
	defer func() { err = errors.Join(err, unix.Unmount(stage, unix.MNT_DETACH), os.Remove(stage)) }()
	if err := o.mapLayers(v, stage, uid); err != nil {
		return err
	}
	place, err := os.Open(stage) // its name is short, and mount options have a length limit
	if err != nil {
		return err
	}
	defer place.Close()
	var lower []string
	for i := range o.layers {
		lower = append(lower, fmt.Sprintf("/proc/self/fd/%d/%d", place.Fd(), i))
	}
	above, work, whole := filepath.Join(upper, "u"), filepath.Join(upper, "k"), filepath.Join(stage, "whole")
	if err := errors.Join(os.Mkdir(upper, 0o700), os.Mkdir(above, 0o755), os.Mkdir(work, 0o700), os.Mkdir(whole, 0o700)); err != nil {
		return err
	}
	scratch, err := openPath(upper) // programs can read the options, so they name no directory of the host
	if err != nil {
		return err
	}
	defer scratch.Close()
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + fdPath(scratch) + "/u,workdir=" + fdPath(scratch) + "/k,redirect_dir=on,metacopy=on"
	if err := unix.Mount("overlay", whole, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return cannotOver(v, err)
	}
	if err := v.others.give(filepath.Join(whole, v.path), uid); err != nil {
		return fmt.Errorf("give %s to the program: %w", v.path, err)
	}
	return attach(filepath.Join(whole, v.path), target)
}

// mapLayers mounts the layers below stage, with v's owner mapped to the program.
func (o *Overlays) mapLayers(v *over, stage string, uid int) error {
	ids, err := mount.GetUsernsFD(swapped(v.uid, uid), swapped(v.gid, uid))
	if err != nil {
		return fmt.Errorf("map the owner of %s: %w", v.path, err)
	}
	defer ids.Close()
	for i, l := range o.layers {
		at := filepath.Join(stage, strconv.Itoa(i))
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		if err := mount.IDMapMount(l, at, int(ids.Fd())); err != nil {
			return cannotOver(v, err)
		}
	}
	return nil
}

// cannotOver distinguishes missing support (before Linux 5.19, and in some file systems) from other
// errors.
func cannotOver(v *over, err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return job.Invalid("policy.write", "%q is a directory of the image, which the kernel or the file system of this worker's images cannot show to a program as its own (%v): choose one that the image does not have", v.path, err)
	}
	return fmt.Errorf("copy the image's files of %s: %w", v.path, err)
}

// swapped returns a map of ids, as container:host:size, that exchanges two ids and keeps all
// others.
func swapped(a, b int) string {
	const all = 1<<32 - 1
	low, high := min(a, b), max(a, b)
	var out []string
	add := func(from, to, size int) {
		if size > 0 {
			out = append(out, fmt.Sprintf("%d:%d:%d", from, to, size))
		}
	}
	add(0, 0, low)
	add(low, high, 1)
	if high > low {
		add(low+1, low+1, high-low-1)
		add(high, low, 1)
	}
	add(high+1, high+1, all-high-1)
	return strings.Join(out, ",")
}

// attach also mounts the directory source on target.
func attach(source, target string) error {
	tree, err := sandbox.CloneTree(source, 0)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}
