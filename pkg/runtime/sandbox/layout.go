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

// Paths of the guest and its files in a sandbox.
const (
	GuestDir   = policy.SandboxDir
	GuestPath  = GuestDir + "/guest"
	harness    = GuestDir + "/harness.py"
	SlotDir    = GuestDir + "/slot"
	SocketName = "socket"
)

// Layout is the directories of a sandbox from its scratch instead of the image. The directories in
// Read are filled before the program starts, and read-only for it.
type Layout struct{ Write, Read []string }

// DefaultLayout is the layout of warm slots.
var DefaultLayout = Layout{Write: policy.Default().Write}

// LayoutOf returns a copy of p's layout.
func LayoutOf(p *policy.Policy) Layout {
	return Layout{slices.Clone(p.Write), slices.Clone(p.Read)}
}

// Equal reports whether two sandboxes have the same directories.
func (l Layout) Equal(o Layout) bool {
	return slices.Equal(l.Write, o.Write) && slices.Equal(l.Read, o.Read)
}

// Paths lists every directory of the scratch, read-only ones last.
func (l Layout) Paths() []string { return slices.Concat(l.Write, []string{"/dev/shm"}, l.Read) }

// Extra lists the directories that an image may lack.
func (l Layout) Extra() []string { return slices.Concat(l.Write, l.Read) }

// Check returns a *job.FieldError if a sandbox cannot have a filesystem at one of the paths.
// Admission applies the same rule, but workers do not rely on it.
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

// CheckImage returns a *job.FieldError if the image mounted at rootfs has a file where the layout
// needs a directory. Other errors are failures of the worker.
func (l Layout) CheckImage(rootfs string) error {
	if l.Equal(DefaultLayout) {
		return nil // checked when the image was mounted
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
			case err == nil, errors.Is(err, unix.ENOENT): // the sandbox creates it
			case refusable(err):
				return job.Invalid(fmt.Sprintf("%s[%d]", list.field, i), "%.80q is a file of the image, or below one (%v); choose another directory", p, err)
			default:
				return fmt.Errorf("look at %s of the image: %w", p, err)
			}
		}
	}
	return nil
}

// isDirectory returns ENOENT if root has no entry at a path, and ENOTDIR for a file. It follows
// links like a program in the image.
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

// fieldPaths is the paths of one field of a policy.
type fieldPaths struct {
	field string
	paths []string
}

func (l Layout) fields() []fieldPaths {
	return []fieldPaths{{"policy.write", l.Write}, {"policy.read", l.Read}}
}

// Refuse converts an error in the layout of a sandbox. Errors caused by the paths, such as an
// overlong name, become a *job.FieldError, because every sandbox would fail. The default layout
// works with every accepted image, so its errors are failures of the worker and returned unchanged.
func (l Layout) Refuse(err error) error {
	if err == nil || l.Equal(DefaultLayout) || errors.Is(err, job.ErrInvalid) || !refusable(err) {
		return err
	}
	var fault unix.Errno
	errors.As(err, &fault)
	return job.Invalid("policy.write", "or policy.read: this image cannot have these directories (%v); choose others", fault)
}
