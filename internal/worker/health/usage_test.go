package health

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestUsage checks that a limited control group is measured instead of the host.
func TestUsage(t *testing.T) {
	t.Parallel()
	const gib = int64(job.GiB)
	host := Usage{MemoryUsed: 3 * gib, Memory: 8 * gib}
	for name, c := range map[string]struct {
		groups map[string]string
		want   Usage
	}{
		"host":              {nil, host},
		"no limit":          {map[string]string{"memory.max": "max\n", "memory.current": "9\n"}, host},
		"limit too high":    {map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "9\n"}, host},
		"unreadable":        {map[string]string{"memory.max": fmt.Sprintln(gib)}, host},
		"version 2":         {map[string]string{"memory.max": fmt.Sprintln(2 * gib), "memory.current": fmt.Sprintln(gib), "memory.stat": "anon 1\ninactive_file 1024\n"}, Usage{MemoryUsed: gib - 1024, Memory: 2 * gib}},
		"version 1":         {map[string]string{"memory/memory.limit_in_bytes": fmt.Sprintln(2 * gib), "memory/memory.usage_in_bytes": fmt.Sprintln(gib), "memory/memory.stat": "total_inactive_file 1024\n"}, Usage{MemoryUsed: gib - 1024, Memory: 2 * gib}},
		"nothing but cache": {map[string]string{"memory.max": fmt.Sprintln(gib), "memory.current": "1000\n", "memory.stat": "inactive_file 1024\n"}, Usage{Memory: gib}},
	} {
		proc, groups := t.TempDir(), t.TempDir()
		write := func(path, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(proc, "meminfo"), "MemTotal:        8388608 kB\nMemFree:               1 kB\nMemAvailable:    5242880 kB\nHugePages_Total:       0\n")
		for file, text := range c.groups {
			write(filepath.Join(groups, file), text)
		}
		m := UsageMeter{Proc: proc, Groups: groups}
		if got := m.read(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := (&UsageMeter{Proc: t.TempDir(), Groups: t.TempDir(), Dir: filepath.Join(t.TempDir(), "gone")}).read(); got != (Usage{}) {
		t.Errorf("without files: %+v", got)
	}
	disk := &UsageMeter{Dir: t.TempDir()}
	if got := disk.Last(); got != (Usage{}) {
		t.Errorf("before the first measurement: %+v", got)
	}
	if got := disk.read(); got.Disk <= 0 || got.DiskUsed <= 0 || got.DiskUsed > got.Disk || got.MemoryUsed <= 0 || got.MemoryUsed >= got.Memory {
		t.Errorf("of this host: %+v", got)
	}
}
