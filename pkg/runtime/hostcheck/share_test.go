package hostcheck

import (
	"os"
	"path/filepath"
	"testing"
)

func TestShareOf(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"fs/inotify/max_user_instances": "128", "fs/inotify/max_user_watches": "65536", "kernel/pty/max": "4096", "kernel/pty/reserve": "1024", "kernel/pid_max": "32768",
	} {
		path := filepath.Join(root, "proc/sys", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for jobs, want := range map[int]struct{ instances, watches, terminals int64 }{
		1: {16, 8192, 32}, 16: {4, 2048, 32}, 64: {1, 512, 24}, 100: {0, 327, 15}, 100_000: {0, 0, 1},
	} {
		s := ShareOf(root, jobs)
		if s.Instances != want.instances || s.Watches != want.watches || s.Terminals != want.terminals {
			t.Errorf("of %d jobs each gets %+v, want %+v", jobs, s, want)
		}
		if int64(jobs)*s.Instances > 64 || int64(jobs)*s.Watches > 32768 {
			t.Errorf("%d jobs get more than half: %+v", jobs, s)
		}
	}
	if n := MostProcesses(root); n != 4096 {
		t.Errorf("MostProcesses = %d", n)
	}
}
