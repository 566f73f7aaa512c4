package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// A layout that an image cannot have is an error of the field that names the path.
func TestLayoutAgainstAnImage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"etc", "usr/bin", "run"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/passwd"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"bin": "usr/bin", "accounts": "/etc/passwd", "gone": "nowhere", "loop": "loop", "outside": "/../../../etc"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for at, fault := range map[string]bool{
		"/etc": false, "/new/place": false, "/bin/new": false, "/gone": false, "/gone/x": false, "/outside": false, "/outside/hostname": false,
		"/etc/passwd": true, "/etc/passwd/x": true, "/accounts": true, "/accounts/x/y": true, "/loop": true, "/loop/x": true,
	} {
		for field, l := range map[string]Layout{"policy.write[1]": {Write: []string{"/tmp", at}}, "policy.read[0]": {Write: []string{"/tmp"}, Read: []string{at}}} {
			err := l.CheckImage(root)
			bad := new(job.FieldError)
			if errors.As(err, &bad) != fault || fault && bad.Field != field || !fault && err != nil {
				t.Errorf("%s in %s: %v, want a fault %v", at, field, err, fault)
			}
		}
	}
	if err := (Layout{Write: []string{"/x"}}).CheckImage(filepath.Join(root, "none")); err == nil || errors.Is(err, job.ErrInvalid) {
		t.Errorf("an image that is not mounted: %v", err)
	}
}

// Only errors that paths cause are refused, and only where the paths are the job's.
func TestRefuseLayout(t *testing.T) {
	t.Parallel()
	own := Layout{Write: []string{"/x"}}
	for errno, refused := range map[unix.Errno]bool{
		unix.ENAMETOOLONG: true, unix.ENOTDIR: true, unix.EISDIR: true, unix.EEXIST: true, unix.ELOOP: true,
		unix.ENOSPC: false, unix.EMFILE: false, unix.ENOMEM: false, unix.EIO: false, unix.EPERM: false,
	} {
		err := fmt.Errorf("make a box: %w", &os.PathError{Op: "mkdir", Path: "/x", Err: errno})
		if got := errors.Is(own.Refuse(err), job.ErrInvalid); got != refused {
			t.Errorf("%v: refused %v, want %v", errno, got, refused)
		}
		if errors.Is(DefaultLayout.Refuse(err), job.ErrInvalid) {
			t.Errorf("%v is refused with the default layout", errno)
		}
	}
	if own.Refuse(nil) != nil {
		t.Error("refuses nothing")
	}
}
