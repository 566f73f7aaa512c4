package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/runtime/disk"
)

// rootOf mounts a root on a disk.
func rootOf(t *testing.T, d *disk.Disk, first int, layers ...string) string {
	t.Helper()
	target := t.TempDir()
	if err := os.Chmod(filepath.Dir(target), 0o755); err != nil { // for the users of the root
		t.Fatal(err)
	}
	if err := Root(target, layers, d.Dir, first, target+"-stage"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
	})
	return target
}

func disks(t *testing.T) *disk.Store {
	t.Helper()
	s, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func created(t *testing.T, s *disk.Store, size int64) *disk.Disk {
	t.Helper()
	d, err := s.Create(context.WithoutCancel(t.Context()), size, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// layer makes a layer with files that belong to their numbers.
func layer(t *testing.T, files map[string]int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, id := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(name), 0o640), os.Chown(at, id, id)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func owner(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	if s.Uid != s.Gid {
		t.Errorf("%s: user %d, group %d", path, s.Uid, s.Gid)
	}
	return int(s.Uid)
}

// as calls f with the rights of a user of the host.
func as(t *testing.T, id int, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() { // its thread is not used again
		runtime.LockOSThread()
		_, _, e1 := unix.RawSyscall(unix.SYS_SETFSGID, uintptr(id), 0, 0)
		_, _, e2 := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(id), 0, 0)
		if e1 != 0 || e2 != 0 {
			done <- errors.Join(e1, e2)
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Errorf("as %d: %v", id, err)
	}
}

// The users of a root own the files of its layers and what they write, and a copy of the disk fits a
// sandbox with other users of the host.
func TestRoot(t *testing.T) {
	testenv.Needs(t, "root")
	const first, other = 300_000_000, 400_000_000
	bottom := layer(t, map[string]int{"etc/passwd": 0, "home/a/file": 1000, "last": 65535, "covered": 5})
	top := layer(t, map[string]int{"covered": 7})
	s := disks(t)
	d := created(t, s, 16<<20)
	root := rootOf(t, d, first, top, bottom)
	for name, id := range map[string]int{"": 0, "etc": 0, "etc/passwd": 0, "home/a/file": 1000, "last": 65535, "covered": 7} {
		if got := owner(t, filepath.Join(root, name)); got != first+id {
			t.Errorf("%q belongs to %d; want %d", name, got, first+id)
		}
	}
	as(t, first, func() error { // its own root
		return errors.Join(
			os.WriteFile(root+"/new", []byte("new"), 0o600),
			os.WriteFile(root+"/etc/passwd", []byte("changed"), 0o640),
			os.Remove(root+"/covered"),
			os.Rename(root+"/home", root+"/moved"),
		)
	})
	as(t, first+1000, func() error {
		if err := os.WriteFile(root+"/intruder", nil, 0o600); !errors.Is(err, os.ErrPermission) {
			return errors.Join(errors.New("a user writes root's directory"), err)
		}
		return os.WriteFile(root+"/moved/a/file", []byte("mine"), 0o640)
	})
	if text, err := os.ReadFile(bottom + "/etc/passwd"); err != nil || string(text) != "etc/passwd" {
		t.Errorf("the layer changed: %q, %v", text, err)
	}

	c, err := d.Copy()
	if err != nil {
		t.Fatal(err)
	}
	copied := rootOf(t, c, other, top, bottom)
	for name, x := range map[string]struct {
		id   int
		text string
	}{"new": {0, "new"}, "etc/passwd": {0, "changed"}, "moved/a/file": {1000, "mine"}, "last": {65535, "last"}} {
		text, err := os.ReadFile(filepath.Join(copied, name))
		if got := owner(t, filepath.Join(copied, name)); got != other+x.id || err != nil || string(text) != x.text {
			t.Errorf("the copy's %s: %q of %d, %v; want %q of %d", name, text, got, err, x.text, other+x.id)
		}
	}
	for _, gone := range []string{"covered", "home"} {
		if _, err := os.Lstat(filepath.Join(copied, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the copy has %s: %v", gone, err)
		}
	}
	as(t, other, func() error { return os.WriteFile(copied+"/new", []byte("newer"), 0o600) })
	if text, err := os.ReadFile(root + "/new"); err != nil || string(text) != "new" {
		t.Errorf("the original changed: %q, %v", text, err)
	}
}

// A root is full when its disk is.
func TestRootIsLimited(t *testing.T) {
	testenv.Needs(t, "root")
	const first = 300_000_000
	d := created(t, disks(t), 4<<20)
	root := rootOf(t, d, first, layer(t, map[string]int{"a": 0}))
	as(t, first, func() error {
		if err := os.WriteFile(root+"/large", make([]byte, 16<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			return errors.Join(errors.New("no limit"), err)
		}
		return nil
	})
}
