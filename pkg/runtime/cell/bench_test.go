package cell

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// BenchmarkCell runs the jobs that the project is measured by, from one loop for
// each of a few goroutines: jobs/s, CPU of this process and of all sandboxes per
// job, and the median time of Run.
func BenchmarkCell(b *testing.B) {
	for _, c := range []struct {
		name    string
		program job.Program
		clients int
	}{
		{"python", job.Program{Python: &job.Python{Code: "print(1+1)"}}, 4},
		{"command", job.Program{Command: &job.Command{Argv: []string{"/bin/true"}}}, 4},
		{"python-sync", job.Program{Python: &job.Python{Code: "print(1+1)"}}, 1},
		{"command-slot", job.Program{Command: &job.Command{}}, 2}, // made and thrown away
		{"python-slot", job.Program{Python: &job.Python{}}, 2},
		{"command-sync", job.Program{Command: &job.Command{Argv: []string{"/bin/true"}}}, 1},
	} {
		b.Run(c.name, func(b *testing.B) { benchCell(b, c.program, c.clients) })
	}
}

func benchCell(b *testing.B, program job.Program, clients int) {
	r := newRuntime(b, func(c *Settings) { c.CellWarm = 16 })
	p := policy.Default()
	p.Isolation = policy.Cell
	plan := &policy.Plan{Policy: p, Enforcement: []job.Enforcement{{Capability: "memory"}}}
	key := runtime.Key{Tenant: "bench", Image: testenv.Image, Isolation: policy.Cell, Kind: program.Kind()}
	one := func() time.Duration {
		s, err := r.Acquire(b.Context(), key)
		if err != nil {
			b.Error(err)
			return 0
		}
		defer s.Close()
		begin := time.Now()
		if program.Python != nil && program.Python.Code == "" || program.Command != nil && program.Command.Argv == nil {
			return time.Since(begin)
		}
		rep, err := s.Run(b.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: program, Plan: plan})
		if err != nil || rep.Outcome != job.Succeeded {
			b.Errorf("Run: %+v, %v", rep, err)
		}
		return time.Since(begin)
	}
	for range 4 * clients {
		one() // warm
	}
	runs := make([][]time.Duration, clients)
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	groups := []string{r.cells.cfg.Group("")}
	before, own := cpuOf(b, groups), ownCPU()
	jobs := cpuOf(b, []string{r.cells.cfg.Group("jobs")})
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range work {
				runs[i] = append(runs[i], one())
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(runs...)
	slices.Sort(all)
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric((cpuOf(b, groups)-before).Seconds()*1000/n, "sandbox-cpu-ms/job")
	b.ReportMetric((cpuOf(b, []string{r.cells.cfg.Group("jobs")})-jobs).Seconds()*1000/n, "job-cpu-ms/job")
	b.ReportMetric((ownCPU()-own).Seconds()*1000/n, "worker-cpu-ms/job")
	b.ReportMetric(all[len(all)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(all[len(all)*99/100].Seconds()*1000, "p99-ms")
}

// cpuOf reads the CPU time of control groups, on cgroup v1.
func cpuOf(b *testing.B, groups []string) (sum time.Duration) {
	for _, g := range groups {
		data, err := os.ReadFile("/sys/fs/cgroup/cpuacct" + g + "/cpuacct.usage")
		if err != nil {
			b.Skip("this benchmark reads cgroup v1:", err)
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

func ownCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
