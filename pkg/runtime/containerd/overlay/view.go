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

// What files of the kernel are the same for two programs is a channel between
// them: inotify tells one when the other opens a file of the image, and a lock that
// one takes the other finds. So what tenants share they do not see as the same
// files: each cell, and each container of a job, has a view of the image, of the
// guest and of devices that has inodes of its own. The pages of a file are those of
// its layer, and in memory once.

// View mounts at dir a file system that shows the layers, the top first, and
// returns dir. The caller unmounts it.
func View(dir string, layers []string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if len(layers) == 1 { // overlay wants two
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

// Mount mounts at target an overlay, read-only, of directories as options of overlay have them, the top first. Programs
// can read the options of their mounts, so these name descriptors of this process and no directory of the host.
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

// openPath opens a directory only to name it.
func openPath(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// fdPath is the path of an open directory in this process.
func fdPath(d *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) }

// Unmount unmounts those of names that are mounted below dir.
func Unmount(dir string, names ...string) error {
	for _, name := range names {
		err := unix.Unmount(filepath.Join(dir, name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && err != unix.EINVAL && err != unix.ENOENT {
			return fmt.Errorf("unmount %s of %s: %w", name, dir, err)
		}
	}
	return nil
}
