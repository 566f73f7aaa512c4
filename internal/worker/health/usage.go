package health

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// usageEvery is the time between two measurements of the usage.
const usageEvery = 5 * time.Second

// Usage is the memory and disk space in use, in bytes. A total of 0 means that the usage is unknown.
type Usage struct {
	MemoryUsed, Memory int64 // of the worker's control group if that has a limit, otherwise of the host
	DiskUsed, Disk     int64 // of the file system of the worker's data
}

// UsageMeter measures the usage in the background, so that a slow disk delays no heartbeat.
type UsageMeter struct {
	Dir    string // a directory of the measured file system; empty: none is measured
	Proc   string // where to read the kernel's state; empty: /proc
	Groups string // mount point of the control groups; empty: /sys/fs/cgroup

	last atomic.Pointer[Usage]
}

// Run measures until ctx ends.
func (m *UsageMeter) Run(ctx context.Context) {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		u := m.read()
		m.last.Store(&u)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Last returns the last measurement.
func (m *UsageMeter) Last() Usage {
	if u := m.last.Load(); u != nil {
		return *u
	}
	return Usage{}
}

func (m *UsageMeter) read() (u Usage) {
	info := readNumbers(filepath.Join(cmp.Or(m.Proc, "/proc"), "meminfo")) // in KiB
	if total, ok := info["MemTotal:"]; ok && info["MemAvailable:"] > 0 {
		u.Memory, u.MemoryUsed = total<<10, max(total-info["MemAvailable:"], 0)<<10
	}
	if limit, used := groupMemory(cmp.Or(m.Groups, "/sys/fs/cgroup")); limit > 0 && limit < u.Memory {
		u.Memory, u.MemoryUsed = limit, used
	}
	var st unix.Statfs_t
	if m.Dir != "" && unix.Statfs(m.Dir, &st) == nil {
		u.Disk = int64(st.Blocks) * int64(st.Bsize)
		u.DiskUsed = u.Disk - int64(st.Bfree)*int64(st.Bsize)
	}
	return u
}

// groupMemory returns the limit and the usage of the control group mounted at root, without page cache that the kernel
// can drop. The limit is 0 if there is none.
func groupMemory(root string) (limit, used int64) {
	for _, f := range []struct{ limit, usage, stat, cache string }{
		{"memory.max", "memory.current", "memory.stat", "inactive_file"},
		{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"},
	} {
		limit, err := readNumber(filepath.Join(root, f.limit))
		if err != nil { // not this version, or max
			continue
		}
		used, err := readNumber(filepath.Join(root, f.usage))
		if err != nil {
			continue
		}
		return limit, max(used-readNumbers(filepath.Join(root, f.stat))[f.cache], 0)
	}
	return 0, 0
}

func readNumber(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// readNumbers reads a file of lines with a name and a number. It skips other lines.
func readNumbers(path string) map[string]int64 {
	text, _ := os.ReadFile(path)
	out := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var n int64
		if _, err := fmt.Sscan(line, &name, &n); err == nil {
			out[name] = n
		}
	}
	return out
}
