package overlay

import (
	"fmt"
	"os"
	"path/filepath"
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
	options := "lowerdir=" + strings.Join(layers, ":")
	if len(options) < os.Getpagesize() {
		if err := unix.Mount("overlay", dir, "overlay", unix.MS_RDONLY|unix.MS_NODEV, options); err != nil {
			return "", fmt.Errorf("mount a view of %s: %w", layers[0], err)
		}
		return dir, nil
	}
	return dir, fmt.Errorf("mount a view of %s: too many layers", layers[0])
}

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
