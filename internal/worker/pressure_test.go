package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/worker/health"
	"github.com/assay-run/assay/pkg/job"
)

// A worker on a host that is short of memory takes no jobs, and reports that. Afterwards it takes
// jobs again.
func TestPressureIsSeen(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	available := func(n job.Size) {
		info := filepath.Join(proc, "meminfo")
		if err := os.WriteFile(info+".new", fmt.Appendf(nil, "MemAvailable: %d kB\n", n/job.KiB), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(info+".new", info); err != nil {
			t.Error(err)
		}
	}
	available(job.GiB / 2)
	f := newFleet()
	b := start(t, f, func(c *Config, _ *Parts) {
		c.Pressure, c.Heartbeat = health.PressureLimits{Keep: job.GiB, Proc: proc}, 50*time.Millisecond
	})
	said := func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.beats) == 0 {
			return ""
		}
		return f.beats[len(f.beats)-1].Worker.Held
	}
	b.until("it says so", func() bool { return strings.HasPrefix(said(), "short of memory") })
	id := f.submit(t, script(""))
	available(4 * job.GiB)
	b.until("the job is recorded", func() bool { return f.row(id).done })
	b.until("it says so", func() bool { return said() == "" })
}

// Heartbeats report the memory and the disk space in use.
func TestUsageIsReported(t *testing.T) {
	t.Parallel()
	f := newFleet()
	b := start(t, f, func(c *Config, _ *Parts) { c.Heartbeat, c.Data = 50*time.Millisecond, t.TempDir() })
	b.until("a heartbeat has the usage", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.beats) == 0 {
			return false
		}
		l := f.beats[len(f.beats)-1].Worker.Load
		return l.MemoryUsed > 0 && l.MemoryUsed < l.Memory && l.DiskUsed > 0 && l.DiskUsed <= l.Disk
	})
}
