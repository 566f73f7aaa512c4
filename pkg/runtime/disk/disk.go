// Package disk makes file systems of a limited size for sandboxes, on the host's disk instead of in memory.
//
// A Disk is an ext4 file system in a sparse file, mounted through a loop device. It works on every host, whatever file
// system the host has: project quotas need a kernel and a mount option that many hosts lack. The file takes the space of
// the data that the disk holds, and deleted files give it back. A disk survives no restart of its worker, so it has no
// journal, and fsync does not wait for the host's disk.
//
// mke2fs runs once for each size. Further disks are copies of its result, which take a few milliseconds.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
)

// Limits of a disk.
const (
	MinSize = 1 << 20 // bytes
	MaxSize = 1 << 44

	inodeSize = 256 // bytes that a file takes besides its content
)

// Store makes disks below one directory. All methods are safe for concurrent use.
type Store struct {
	dir       string
	mke2fs    string // path of the program
	templates singleflight.Group

	mu   sync.Mutex
	made int
}

// Disk is a mounted file system.
type Disk struct {
	// Dir is the root of the file system on the host. It belongs to root.
	Dir string

	store       *Store
	at          string // directory of its file and its mount point
	size        int64
	files       int
	once        sync.Once
	removeError error
}

// Open prepares a directory, which no other process uses, and removes the disks of an earlier process in it. It returns
// an error if mke2fs or loop devices are missing.
func Open(dir string) (*Store, error) {
	mke2fs, err := exec.LookPath("mke2fs")
	if err != nil {
		if mke2fs, err = exec.LookPath("/usr/sbin/mke2fs"); err != nil { // PATH may lack it
			return nil, fmt.Errorf("make disks: %w; install e2fsprogs", err)
		}
	}
	if _, err := os.Stat(loopControl); err != nil {
		return nil, fmt.Errorf("make disks: the host has no loop devices: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir) // as mounts have it
	if err != nil {
		return nil, err
	}
	s := &Store{dir: real, mke2fs: mke2fs}
	return s, s.clear()
}

// Close removes all disks of the store.
func (s *Store) Close() error { return s.clear() }

// clear unmounts and removes everything in the directory.
func (s *Store) clear() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], s.dir+"/") {
			if err := unmount(f[4]); err != nil {
				return err
			}
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
	}
	return err
}

// Create makes an empty disk that holds at least size bytes in at least files files, and some percent more at most.
func (s *Store) Create(ctx context.Context, size int64, files int) (*Disk, error) {
	if size < MinSize || size > MaxSize || files < 1 {
		return nil, fmt.Errorf("make a disk: %d bytes with %d files is not from %d to %d bytes with at least 1 file", size, files, MinSize, MaxSize)
	}
	template, err := s.template(ctx, size, files)
	if err != nil {
		return nil, err
	}
	return s.copyOf(template, size, files)
}

// template returns an image of an empty disk, and makes it on first use.
func (s *Store) template(ctx context.Context, size int64, files int) (string, error) {
	file := filepath.Join(s.dir, fmt.Sprintf("empty-%d-%d", size, files))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	_, err, _ := s.templates.Do(file, func() (any, error) {
		return nil, s.format(context.WithoutCancel(ctx), file, size, files)
	})
	return file, err
}

// format makes an image with an empty file system.
func (s *Store) format(ctx context.Context, file string, size int64, files int) (err error) {
	tmp := file + ".new"
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	if err := os.WriteFile(tmp, nil, 0o600); err != nil {
		return err
	}
	files += 11 + 16                 // inodes of the file system itself, and rounding
	reserved := min(size/48, 17<<20) // the kernel keeps some blocks for delayed allocation
	whole := size + int64(files)*inodeSize + size/256 + reserved + 4<<20
	if err := os.Truncate(tmp, (whole+4095)&^4095); err != nil {
		return fmt.Errorf("make a disk: %w", err)
	}
	// The file is empty, so mke2fs and the kernel need not write zeros. No blocks are reserved for root.
	out, err := exec.CommandContext(ctx, s.mke2fs, "-q", "-F", "-t", "ext4", "-b", "4096", "-I", strconv.Itoa(inodeSize), "-N", strconv.Itoa(files), "-m", "0",
		"-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", tmp).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make a disk: mke2fs: %w: %.500s", err, out)
	}
	return os.Rename(tmp, file)
}

// copyOf makes a disk from an image.
func (s *Store) copyOf(image string, size int64, files int) (_ *Disk, err error) {
	s.mu.Lock()
	s.made++
	d := &Disk{store: s, at: filepath.Join(s.dir, strconv.Itoa(s.made)), size: size, files: files}
	s.mu.Unlock()
	d.Dir = filepath.Join(d.at, "root")
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make a disk: %w", err), d.Close())
		}
	}()
	if err := errors.Join(os.Mkdir(d.at, 0o700), os.Mkdir(d.Dir, 0o700)); err != nil {
		return nil, err
	}
	if err := copySparse(d.image(), image); err != nil {
		return nil, err
	}
	device, err := attach(d.image())
	if err != nil {
		return nil, err
	}
	defer device.Close() // the mount keeps it
	if err := unix.Mount(device.Name(), d.Dir, "ext4", unix.MS_NODEV|unix.MS_NOATIME, "discard,noinit_itable,barrier=0,errors=remount-ro"); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Disk) image() string { return filepath.Join(d.at, "image") }

// Copy makes another disk with the same limits and content. The content is that of one moment: writes wait until the
// copy is complete. It takes time in proportion to the data, unless the host's file system can share it.
func (d *Disk) Copy() (*Disk, error) {
	root, err := os.Open(d.Dir)
	if err != nil {
		return nil, fmt.Errorf("copy a disk: %w", err)
	}
	defer root.Close()
	if err := unix.IoctlSetInt(int(root.Fd()), freeze, 0); err != nil {
		return nil, fmt.Errorf("copy a disk: freeze it: %w", err)
	}
	c, err := d.store.copyOf(d.image(), d.size, d.files)
	if terr := unix.IoctlSetInt(int(root.Fd()), thaw, 0); terr != nil {
		if err == nil {
			err = c.Close()
		}
		return nil, errors.Join(err, fmt.Errorf("copy a disk: thaw it: %w", terr))
	}
	return c, err
}

// fullBelow is the free space of a full disk in bytes: a larger write fails.
const fullBelow = 64 << 10

// Full reports whether the space or the files are used up.
func (d *Disk) Full() (space, files bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		return false, false, fmt.Errorf("measure a disk: %w", err)
	}
	return int64(st.Bavail)*st.Bsize < fullBelow, st.Ffree == 0, nil
}

// Used returns the bytes that the disk takes on the host.
func (d *Disk) Used() (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(d.image(), &st); err != nil {
		return 0, fmt.Errorf("measure a disk: %w", err)
	}
	return st.Blocks * 512, nil
}

// Close removes the disk with its content. Mounts of it in other namespaces, and open files, keep the content until
// they are gone. Close is idempotent.
func (d *Disk) Close() error {
	d.once.Do(func() {
		d.removeError = errors.Join(unmount(d.Dir), os.RemoveAll(d.at))
	})
	return d.removeError
}

// unmount removes a mount, if there is one.
func unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // none
		return nil
	}
	return err
}
