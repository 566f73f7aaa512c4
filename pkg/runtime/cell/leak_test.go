package cell

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	stdruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

var leakJobs = flag.Int("cell.jobs", 1000, "jobs that TestCellLeaksNothing runs; 10000 is what the project promises")

// footprint is everything on a host that jobs of cells could leave behind.
type footprint map[string]int

func measure(t *testing.T, r *Runtime) footprint {
	t.Helper()
	f := footprint{}
	count := func(pattern string) int {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	f["mounts"] = strings.Count(string(table), " "+r.cells.cfg.Dir+"/")
	f["descriptors"] = count("/proc/self/fd/*")
	f["files"] = count(filepath.Join(r.cells.cfg.Dir, "*", "*"))
	f["goroutines"] = stdruntime.NumGoroutine()
	f["control groups"] = count("/sys/fs/cgroup/*" + r.cells.cfg.Group("*/*/cgroup.procs"))
	namespaces := map[string]bool{}
	for home, c := range r.cells.live {
		f[fmt.Sprint("slots of ", home.tenant)] = c.slots
		f["launcher KiB"] = rss(c.container.Proc.PID)
		f["zygote KiB"] = rss(childOf(t, c.container.Proc.PID, "python3"))
		found, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range found {
			status, err := os.ReadFile(p + "/status")
			_, user, _ := strings.Cut(string(status), "\nUid:\t")
			user, _, _ = strings.Cut(user, "\t")
			uid, aerr := strconv.Atoi(user)
			if err != nil || aerr != nil || uid < c.hostUID() || uid > c.hostUID()+cellUsers {
				continue
			}
			f["processes"]++
			for _, kind := range []string{"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"} {
				if ns, err := os.Readlink(p + "/ns/" + kind); err == nil {
					namespaces[ns] = true
				}
			}
		}
	}
	f["namespaces"] = len(namespaces)
	return f
}

// rss returns the resident memory of a process in KiB.
func rss(pid int) int {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(value)[0])
			return n
		}
	}
	return 0
}

// After any number of jobs, of every kind and with every ending, the host is as
// it was.
func TestCellLeaksNothing(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 4 })
	kinds := []job.Program{
		pySnippet("print(1+1)"), shell("true"), pySnippet("open('/tmp/x','w').write('x'*100000); 1/0"), shell("setsid sleep 100 & exit 3"),
		pySnippet("import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(100)"), shell("kill -9 $$"),
	}
	many := func(n int) {
		work := make(chan int, n)
		for i := range n {
			work <- i
		}
		close(work)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for i := range work {
					p := kinds[i%len(kinds)]
					s, err := r.Acquire(t.Context(), cellKeys[p.Kind()])
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Program: p, Plan: cellPlan(nil)}); err != nil {
						t.Error(err)
					}
					s.Close()
				}
			})
		}
		wg.Wait()
	}
	settle := func() footprint {
		var f footprint
		for range 100 { // until the background is done, and every warm slot is there
			time.Sleep(50 * time.Millisecond)
			r.cells.groups.Trim(t.Context(), time.Now()) // else they are as many as there ever were jobs at once
			f = measure(t, r)
			if f["slots of test"] == r.cells.pool.Ready(slotKeyOf(t, r, guest.ZygotePrograms))+r.cells.pool.Ready(slotKeyOf(t, r, 0)) && f["slots of test"] == 4 {
				break
			}
		}
		return f
	}
	many(300)
	before := settle()
	many(*leakJobs)
	after := settle()
	t.Logf("before: %v", before)
	t.Logf("after:  %v", after)
	for what, n := range after {
		slack := 0
		switch what {
		case "launcher KiB": // its collector takes a while to find its level
			slack = 4096
		case "zygote KiB":
			slack = 512
		case "goroutines", "processes", "namespaces":
			slack = 12 // slots of one kind or the other
		case "descriptors":
			slack = 60 // of such slots
		}
		if n > before[what]+slack {
			t.Errorf("%s: %d before, %d after %d jobs", what, before[what], n, *leakJobs)
		}
	}
}

func slotKeyOf(t *testing.T, r *Runtime, zygote byte) slotKey {
	t.Helper()
	for home := range r.cells.live {
		return slotKey{owner: home, zygote: zygote}
	}
	t.Fatal("no cell")
	return slotKey{}
}
