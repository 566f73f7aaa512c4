package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// NewDetachedScratch creates a scratch without a mount point on this host: a box's supervisor
// receives the mount itself. So thousands of them do not lengthen the host's mount table, which
// every new mount namespace copies. A scratch disappears with its last user.
func NewDetachedScratch(uid int, size job.Size, files int, l Layout) (_ *Scratch, err error) {
	s := &Scratch{UID: uid, size: size, files: files, own: 1 + viewFiles + len(l.Paths())}
	if s.Mount, err = MountTmpfs(append(s.options(size, files), "mode", "0711")...); err != nil {
		return nil, fmt.Errorf("make scratch: %w", err)
	}
	s.Dir = "/proc/self/fd/" + strconv.Itoa(int(s.Mount.Fd()))
	if err := errors.Join(s.divide(l, nil), s.showDefaults()); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("make scratch: %w", err)
	}
	return s, nil
}

// NewScratchOver is NewDetachedScratch with initial content from an image. A detached mount cannot
// be part of an overlay, so it is first created at dir.
func NewScratchOver(dir string, uid int, size job.Size, files int, l Layout, over Overlays) (_ *Scratch, err error) {
	s, err := NewScratch(dir, uid, size, files, l, over)
	if err != nil {
		return nil, err
	}
	tree, err := CloneTree(dir, unix.AT_RECURSIVE)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for i := range s.Dirs { // by its open descriptor, because the box dismantles the tree
		w := &s.Dirs[i]
		_ = w.Dir.Close()
		if w.Dir, err = os.Open(filepath.Join("/proc/self/fd", strconv.Itoa(int(tree.Fd())), filepath.Base(w.Host))); err != nil {
			return nil, errors.Join(err, tree.Close(), s.Close())
		}
		w.Host = "/proc/self/fd/" + strconv.Itoa(int(w.Dir.Fd()))
	}
	mounts := s.Dirs
	s.Dirs = nil
	if err := s.Close(); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	s.Mount, s.Dirs = tree, mounts
	s.Dir = "/proc/self/fd/" + strconv.Itoa(int(tree.Fd()))
	return s, nil
}

// MountTmpfs returns the mount of a new tmpfs with options as names and values.
func MountTmpfs(options ...string) (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := configure(fs, options); err != nil {
		return nil, err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(fd), "scratch"), nil
}

func configure(fs int, options []string) error {
	for i := 0; i < len(options); i += 2 {
		if err := unix.FsconfigSetString(fs, options[i], options[i+1]); err != nil {
			return fmt.Errorf("fsconfig %s: %w", options[i], err)
		}
	}
	return nil
}

// reconfigure is resize for a detached file system.
func (s *Scratch) reconfigure(size job.Size, files int) error {
	fs, err := unix.Fspick(int(s.Mount.Fd()), "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("fspick: %w", err)
	}
	defer unix.Close(fs)
	if err := configure(fs, s.options(size, files)); err != nil {
		return err
	}
	return unix.FsconfigReconfigure(fs)
}

// CloneTree returns a detached mount of dir.
func CloneTree(dir string, flags uint) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("clone the mount of %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}
