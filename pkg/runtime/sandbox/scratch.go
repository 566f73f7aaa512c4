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

// Ids of a sandbox inside its user namespace.
const (
	IDs        = 65536 // ids in the map of a user namespace
	ProgramUID = 1000
	ProgramGID = 1000
)

// UserName is the name of the programs' user, in images without another name for its id.
const UserName = "assay"

// Scratch is the writable space of one slot: one tmpfs, mounted by the worker, with a directory for
// each writable path. With a single file system the disk limit applies to their sum. The worker's
// own mount lets it read artifacts after all processes have ended.
type Scratch struct {
	Dir    string   // on the host
	Mount  *os.File // the detached file system, if Dir leads through it
	UID    int      // host uid of the sandbox's root
	size   job.Size
	files  int
	own    int      // our own inodes
	cores  int      // shown to programs
	memory job.Size // likewise
	Dirs   []Dir    // one for each path of its layout
}

// Dir is one path of a sandbox in its scratch, writable or read-only.
type Dir struct {
	Path string   // in the sandbox
	Host string   // on the host
	Dir  *os.File // opened Host, for artifacts and inputs

	ReadOnly bool // for the program
	over     bool // it started with the image's content
}

// Overlays are the initial content of paths, from directories of an image.
type Overlays interface {
	// Inodes returns how many of a scratch's inodes they use themselves.
	Inodes() int
	// Has reports whether a path has initial content.
	Has(path string) bool
	// Lay mounts the directory of a path on target, with writes going to the directory upper of a
	// scratch. uid is the program's host user, and stage a temporary directory.
	Lay(path, upper, target, stage string, uid int) error
}

// NewScratch mounts the space at dir for a sandbox whose root is host user uid. over is the initial
// content; nil means none.
func NewScratch(dir string, uid int, size job.Size, files int, l Layout, over Overlays) (_ *Scratch, err error) {
	// Our own inodes: the root, the socket's directory, and the socket, which its connection keeps
	// after its name is removed.
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

// divide creates a directory for each path, with its initial content from over.
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

// Mkdir creates a directory that belongs to a user of the sandbox.
func (s *Scratch) Mkdir(dir string, uid int, mode os.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chown(dir, s.UID+uid, s.UID+uid)
}

// options returns the tmpfs's options as names and values, including our own part.
func (s *Scratch) options(size job.Size, files int) []string {
	return []string{"size", strconv.FormatInt(int64(size)+viewSize, 10), "nr_inodes", strconv.Itoa(files + s.own)}
}

// joined returns options for mount(2).
func joined(options []string) string {
	var out []string
	for i := 0; i < len(options); i += 2 {
		out = append(out, options[i]+"="+options[i+1])
	}
	return strings.Join(out, ",")
}

// resize sets the limits of the slot's job.
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

// full reports whether the space or the inodes are exhausted.
func (s *Scratch) full() (space, inodes bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.Dir, &st); err != nil {
		return false, false, fmt.Errorf("measure scratch: %w", err)
	}
	return st.Bavail == 0, st.Ffree == 0, nil
}

// Close unmounts the space and so deletes its content.
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

// home returns the start directory of programs.
func (s *Scratch) home() string {
	for _, w := range s.Dirs {
		if w.Path == "/workspace" {
			return w.Path
		}
	}
	return "/"
}
