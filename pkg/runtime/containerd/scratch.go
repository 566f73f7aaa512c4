package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// Ids of a sandbox, inside its user namespace.
const (
	idCount    = 65536 // ids that a user namespace maps
	programUID = 1000
	programGID = 1000
)

// scratch is the writable space of one slot: one tmpfs, mounted by the worker,
// with a directory for each writable path. One file system for all of them
// makes the disk limit hold for their sum, and since it is the worker's own
// mount, artifacts can be read when everything in the sandbox is dead.
type scratch struct {
	dir    string
	mount  *os.File // the file system, if it is mounted nowhere on this host; dir leads through it
	uid    int      // host uid of the sandbox's root
	size   job.Size
	files  int
	own    int      // inodes that are ours
	cores  int      // that programs are shown
	memory job.Size // likewise
	mounts []writable
}

// writable is one path of a sandbox that is its own: writable, or to be read only.
type writable struct {
	path string   // in the sandbox
	host string   // on the host
	dir  *os.File // of host: artifacts are opened, and inputs written, beneath it

	readOnly bool // for the program
	over     bool // it began with what the image has there
}

// Overlays are the directories of an image that paths of a scratch begin with.
type Overlays interface {
	// Inodes is how many of a scratch's are not the program's for them.
	Inodes() int
	// Has reports whether a path begins with something.
	Has(path string) bool
	// Lay mounts on target the directory of a path with what is written to it in the
	// directory upper of a scratch, whose program is the host's user uid. The directory
	// stage is for what is needed meanwhile.
	Lay(path, upper, target, stage string, uid int) error
}

// newScratch mounts the space at dir for a sandbox whose root is host user uid.
// It begins with over, nil for nothing.
func newScratch(dir string, uid int, size job.Size, files int, l layout, over Overlays) (_ *scratch, err error) {
	// Ours besides: the root, the socket's directory, and the socket, which a
	// connection keeps although it has no name any more.
	s := &scratch{dir: dir, uid: uid, size: size, files: files, own: 3 + viewFiles + len(l.paths()) + over.Inodes()}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, joined(s.options(size, files))+",mode=0711"); err != nil {
		return nil, fmt.Errorf("mount scratch: %w", err)
	}
	return s, errors.Join(s.divide(l, over), s.showDefaults())
}

// divide makes a directory for each path, which begins with what over has for it.
func (s *scratch) divide(l layout, over Overlays) (err error) {
	paths := l.paths()
	for i, p := range paths {
		w := writable{path: p, host: filepath.Join(s.dir, "w"+strconv.Itoa(i)), readOnly: i >= len(paths)-len(l.read)}
		if err := s.mkdir(w.host, programUID, 0o755); err != nil {
			return err
		}
		if p == "/tmp" || p == "/dev/shm" {
			if err := os.Chmod(w.host, 0o777|os.ModeSticky); err != nil {
				return err
			}
		}
		if over != nil && over.Has(p) {
			w.over = true
			if err := over.Lay(p, filepath.Join(s.dir, "o"+strconv.Itoa(i)), w.host, s.dir+"-layers", s.uid+programUID); err != nil {
				return err
			}
		}
		if w.dir, err = os.Open(w.host); err != nil {
			return err
		}
		s.mounts = append(s.mounts, w)
	}
	return nil
}

// mkdir makes a directory that belongs to a user of the sandbox.
func (s *scratch) mkdir(dir string, uid int, mode os.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chown(dir, s.uid+uid, s.uid+uid)
}

// options are the tmpfs's, as names and values; what is our own in it is not the
// program's.
func (s *scratch) options(size job.Size, files int) []string {
	return []string{"size", strconv.FormatInt(int64(size)+viewSize, 10), "nr_inodes", strconv.Itoa(files + s.own)}
}

// joined is options for mount(2).
func joined(options []string) string {
	var out []string
	for i := 0; i < len(options); i += 2 {
		out = append(out, options[i]+"="+options[i+1])
	}
	return strings.Join(out, ",")
}

// resize sets the limits of the job that takes the slot.
func (s *scratch) resize(size job.Size, files int) error {
	if s.size == size && s.files == files {
		return nil
	}
	var err error
	if s.mount != nil {
		err = s.reconfigure(size, files)
	} else {
		err = unix.Mount("", s.dir, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, joined(s.options(size, files)))
	}
	if err != nil {
		return fmt.Errorf("resize scratch: %w", err)
	}
	s.size, s.files = size, files
	return nil
}

// full reports whether the space or the inodes have run out.
func (s *scratch) full() (space, inodes bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return false, false, fmt.Errorf("measure scratch: %w", err)
	}
	return st.Bavail == 0, st.Ffree == 0, nil
}

// close unmounts the space; what was in it is gone.
func (s *scratch) close() error {
	for _, w := range s.mounts {
		_ = w.dir.Close()
	}
	if s.mount != nil {
		return s.mount.Close()
	}
	err := unix.Unmount(s.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // not mounted
		err = nil
	}
	if rerr := os.Remove(s.dir); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// home is the directory that programs start in.
func (s *scratch) home() string {
	for _, w := range s.mounts {
		if w.path == "/workspace" {
			return w.path
		}
	}
	return "/"
}
