package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnmountsBesideWhatIsGone checks that all mounts are unmounted even if another process unmounts and
// removes some of them after the table was read.
func TestUnmountsBesideWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	mounted := filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.Mkdir(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unmountAll([]string{filepath.Join(dir, "gone"), plain, mounted}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(mounted); err != nil {
		t.Errorf("it is still a mount: %v", err)
	}
}
