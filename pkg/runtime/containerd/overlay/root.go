package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

const (
	// rootIDs is how many users and groups a root has: as many as a user namespace usually maps.
	rootIDs = 1 << 16
	// diskIDs is the user 0 of a root on its disk. The kernel's own directory there belongs to the
	// host's user 0, which is nobody in the root.
	diskIDs = 1 << 16
)

// Root mounts at target a writable root of the layers, top first. Changes go to the directory disk,
// the root of a file system of its own. For the host, a file of the root's user or group n belongs
// to first+n. On the disk the ids do not depend on first, so that a disk and its copies fit every
// sandbox. stage is the path of a temporary directory. The caller unmounts target, and then the disk.
func Root(target string, layers []string, disk string, first int, stage string) (err error) {
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("assay", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,nr_inodes=1024,mode=0700"); err != nil {
		return errors.Join(fmt.Errorf("mount a place for layers: %w", err), os.Remove(stage))
	}
	defer func() { err = errors.Join(err, unix.Unmount(stage, unix.MNT_DETACH), os.Remove(stage)) }()
	if err := makeUpper(disk); err != nil {
		return err
	}
	if err := shift(fmt.Sprintf("0:0:1,%d:%d:%d", diskIDs, first, rootIDs), stage, 0, disk); err != nil {
		return err
	}
	if err := shift(fmt.Sprintf("0:%d:%d", first, rootIDs), stage, 1, layers...); err != nil {
		return err
	}
	place, err := openPath(stage) // its name is short, and programs can read the options
	if err != nil {
		return err
	}
	defer place.Close()
	var lower []string
	for i := range layers {
		lower = append(lower, fmt.Sprintf("%s/%d", fdPath(place), i+1))
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/0/u,workdir=%[2]s/0/k,redirect_dir=on,metacopy=on", strings.Join(lower, ":"), fdPath(place))
	if len(options) >= os.Getpagesize() {
		return errors.New("too many layers")
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	return nil
}

// shift mounts directories at stage, named by numbers from n, with other owners.
func shift(ids, stage string, n int, dirs ...string) error {
	namespace, err := mount.GetUsernsFD(ids, ids)
	if err != nil {
		return fmt.Errorf("map the owners of a root: %w", err)
	}
	defer namespace.Close()
	for i, dir := range dirs {
		at := filepath.Join(stage, strconv.Itoa(n+i))
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		if err := mount.IDMapMount(dir, at, int(namespace.Fd())); err != nil {
			return fmt.Errorf("map the owners of %s: %w", dir, err)
		}
	}
	return nil
}

// makeUpper creates the directories for changes on a new disk: that of the root and the kernel's own.
func makeUpper(disk string) error {
	above := filepath.Join(disk, "u")
	err := os.Mkdir(above, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return errors.Join(err, os.Mkdir(filepath.Join(disk, "k"), 0o700), os.Chown(above, diskIDs, diskIDs))
}
