package sandbox

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
	IDs        = 65536 // ids that a user namespace maps
	ProgramUID = 1000
	ProgramGID = 1000
)

// UserName is the name of the user that programs run as, in images that have no other for its id.
const UserName = "assay"

// Scratch is the writable space of one slot: one tmpfs, mounted by the worker,
// with a directory for each writable path. One file system for all of them
// makes the disk limit hold for their sum, and since it is the worker's own
// mount, artifacts can be read when everything in the sandbox is dead.
type Scratch struct {
	Dir    string   // on the host
	Mount  *os.File // the file system, if it is mounted nowhere on this host; Dir leads through it
	UID    int      // host uid of the sandbox's root
	size   job.Size
	files  int
	own    int      // inodes that are ours
	cores  int      // that programs are shown
	memory job.Size // likewise
	Dirs   []Dir    // one for each path of its layout
}

// Dir is one path of a sandbox that is its own: writable, or to be read only.
type Dir struct {
	Path string   // in the sandbox
	Host string   // on the host
	Dir  *os.File // of host: artifacts are opened, and inputs written, beneath it

	ReadOnly bool // for the program
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

// NewScratch mounts the space at dir for a sandbox whose root is host user uid.
// It begins with over, nil for nothing.
func NewScratch(dir string, uid int, size job.Size, files int, l Layout, over Overlays) (_ *Scratch, err error) {
	// Ours besides: the root, the socket's directory, and the socket, which a
	// connection keeps although it has no name any more.
	s := &Scratch{Dir: dir, UID: uid, size: size, files: files, own: 3 + viewFiles + len(l.Paths()) + over.Inodes()}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, joined(s.options(size, files))+",mode=0711"); err != nil {
		return nil, fmt.Errorf("mount scratch: %w", err)
	}
	return s, errors.Join(s.divide(l, over), s.showDefaults())
}

// divide makes a directory for each path, which begins with what over has for it.
func (s *Scratch) divide(l Layout, over Overlays) (err error) {
	paths := l.Paths()
	for i, p := range paths {
		w := Dir{Path: p, Host: filepath.Join(s.Dir, "w"+strconv.Itoa(i)), ReadOnly: i >= len(paths)-len(l.Read)}
		if err := s.Mkdir(w.Host, ProgramUID, 0o755); err != nil {
			return err
		}
		if p == "/tmp" || p == "/dev/shm" {
			if err := os.Chmod(w.Host, 0o777|os.ModeSticky); err != nil {
				return err
			}
		}
		if over != nil && over.Has(p) {
			w.over = true
			if err := over.Lay(p, filepath.Join(s.Dir, "o"+strconv.Itoa(i)), w.Host, s.Dir+"-layers", s.UID+ProgramUID); err != nil {
				return err
			}
		}
		if w.Dir, err = os.Open(w.Host); err != nil {
			return err
		}
		s.Dirs = append(s.Dirs, w)
	}
	return nil
}

// Mkdir makes a directory that belongs to a user of the sandbox.
func (s *Scratch) Mkdir(dir string, uid int, mode os.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chown(dir, s.UID+uid, s.UID+uid)
}

// options are the tmpfs's, as names and values; what is our own in it is not the
// program's.
func (s *Scratch) options(size job.Size, files int) []string {
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
func (s *Scratch) resize(size job.Size, files int) error {
	if s.size == size && s.files == files {
		return nil
	}
	var err error
	if s.Mount != nil {
		err = s.reconfigure(size, files)
	} else {
		err = unix.Mount("", s.Dir, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, joined(s.options(size, files)))
	}
	if err != nil {
		return fmt.Errorf("resize scratch: %w", err)
	}
	s.size, s.files = size, files
	return nil
}

// full reports whether the space or the inodes have run out.
func (s *Scratch) full() (space, inodes bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.Dir, &st); err != nil {
		return false, false, fmt.Errorf("measure scratch: %w", err)
	}
	return st.Bavail == 0, st.Ffree == 0, nil
}

// Close unmounts the space; what was in it is gone.
func (s *Scratch) Close() error {
	for _, w := range s.Dirs {
		_ = w.Dir.Close()
	}
	if s.Mount != nil {
		return s.Mount.Close()
	}
	err := unix.Unmount(s.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // not mounted
		err = nil
	}
	if rerr := os.Remove(s.Dir); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// home is the directory that programs start in.
func (s *Scratch) home() string {
	for _, w := range s.Dirs {
		if w.Path == "/workspace" {
			return w.Path
		}
	}
	return "/"
}
