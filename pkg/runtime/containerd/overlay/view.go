package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A kernel file shared by two programs is a channel between them: inotify reports each open to the
// other, and so do locks. So tenants share no inodes. Each cell, and each container of a job, has a
// view of the image, of the guest and of devices with its own inodes. The pages of a file are
// shared with its layer, and in memory once.

// View mounts a view of the layers, top first, at dir, and returns dir. The caller unmounts it.
func View(dir string, layers []string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if len(layers) == 1 { // overlay requires two
		empty := dir + "-below"
		if err := os.Mkdir(empty, 0o755); err != nil {
			return "", err
		}
		layers = []string{layers[0], Escape(empty)}
	}
	if err := Mount(dir, layers); err != nil {
		return "", fmt.Errorf("mount a view of %s: %w", layers[0], err)
	}
	return dir, nil
}

// Mount mounts a read-only overlay of directories, in the format of overlay's options, top first,
// at target. Programs can read their mounts' options, so these refer to descriptors of this process
// instead of host directories.
func Mount(target string, layers []string) error {
	var lower []string
	for _, l := range layers {
		d, err := openPath(Unescape(l))
		if err != nil {
			return err
		}
		defer d.Close()
		lower = append(lower, fdPath(d))
	}
	options := "lowerdir=" + strings.Join(lower, ":")
	if len(options) >= os.Getpagesize() {
		return errors.New("too many layers")
	}
	return unix.Mount("overlay", target, "overlay", unix.MS_RDONLY|unix.MS_NODEV, options)
}

// openPath opens a directory as a path only.
func openPath(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// fdPath returns the path of an open directory in this process.
func fdPath(d *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) }

// Unmount unmounts the mounted ones of names below dir.
func Unmount(dir string, names ...string) error {
	for _, name := range names {
		err := unix.Unmount(filepath.Join(dir, name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && err != unix.EINVAL && err != unix.ENOENT {
			return fmt.Errorf("unmount %s of %s: %w", name, dir, err)
		}
	}
	return nil
}
