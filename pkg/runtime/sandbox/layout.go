package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Where the guest and its files are in a sandbox.
const (
	GuestDir   = policy.SandboxDir
	GuestPath  = GuestDir + "/guest"
	harness    = GuestDir + "/harness.py"
	SlotDir    = GuestDir + "/slot"
	SocketName = "socket"
)

// Layout is the directories of a sandbox that are not the image's: each is one of
// its scratch. What lies in read was put there before the program began, and the
// program cannot change it.
type Layout struct{ Write, Read []string }

// DefaultLayout is what warm slots have.
var DefaultLayout = Layout{Write: policy.Default().Write}

// LayoutOf returns what p asks for, in memory of its own.
func LayoutOf(p *policy.Policy) Layout {
	return Layout{slices.Clone(p.Write), slices.Clone(p.Read)}
}

// Equal reports whether two sandboxes have the same directories.
func (l Layout) Equal(o Layout) bool {
	return slices.Equal(l.Write, o.Write) && slices.Equal(l.Read, o.Read)
}

// Paths lists every directory of the scratch, those that are only read last.
func (l Layout) Paths() []string { return slices.Concat(l.Write, []string{"/dev/shm"}, l.Read) }

// Extra lists those that an image may not have.
func (l Layout) Extra() []string { return slices.Concat(l.Write, l.Read) }

// Check returns a *job.FieldError if a sandbox cannot have a filesystem at one of the
// paths. Admission applies the same rule; a worker does not depend on that.
func (l Layout) Check() error {
	for _, list := range l.fields() {
		for i, p := range list.paths {
			if bad := policy.ReservedPlace(p); bad != "" {
				return job.Invalid(fmt.Sprintf("%s[%d]", list.field, i), "%.80q %s", p, bad)
			}
		}
	}
	return nil
}

// CheckImage returns a *job.FieldError if the image, whose file system is mounted at rootfs,
// has a file where the layout wants a directory. Other errors are failures of the worker.
func (l Layout) CheckImage(rootfs string) error {
	if l.Equal(DefaultLayout) {
		return nil // the image was checked for it when it was mounted
	}
	root, err := os.Open(rootfs)
	if err != nil {
		return fmt.Errorf("open the image: %w", err)
	}
	defer root.Close()
	for _, list := range l.fields() {
		for i, p := range list.paths {
			err := isDirectory(root, p)
			switch {
			case err == nil, errors.Is(err, unix.ENOENT): // the sandbox makes it
			case refusable(err):
				return job.Invalid(fmt.Sprintf("%s[%d]", list.field, i), "%.80q is a file of the image, or lies beneath one (%v); choose another directory", p, err)
			default:
				return fmt.Errorf("look at %s of the image: %w", p, err)
			}
		}
	}
	return nil
}

// isDirectory returns ENOENT if root has nothing at a path, ENOTDIR if it is a file. Links
// are followed as a program in the image would.
func isDirectory(root *os.File, at string) error {
	fd, err := unix.Openat2(int(root.Fd()), strings.TrimPrefix(at, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// refusable reports whether the path itself causes an error.
func refusable(err error) bool {
	for _, fault := range []unix.Errno{unix.ENAMETOOLONG, unix.ENOTDIR, unix.EISDIR, unix.EEXIST, unix.ELOOP} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// fieldPaths is the list of paths of one field of a policy.
type fieldPaths struct {
	field string
	paths []string
}

func (l Layout) fields() []fieldPaths {
	return []fieldPaths{{"policy.write", l.Write}, {"policy.read", l.Read}}
}

// Refuse translates an error of laying out the sandbox. Errors that the paths themselves
// cause, such as a name that is too long, become a *job.FieldError: no other sandbox would
// fare better. The default layout works with every image that is served, so that its errors
// are failures of the worker, and are returned as they are.
func (l Layout) Refuse(err error) error {
	if err == nil || l.Equal(DefaultLayout) || errors.Is(err, job.ErrInvalid) || !refusable(err) {
		return err
	}
	var fault unix.Errno
	errors.As(err, &fault)
	return job.Invalid("policy.write", "or policy.read: this image cannot have these directories (%v); choose others", fault)
}
