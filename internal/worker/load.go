package worker

import (
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/store"
)

// cpuRate measures how many cores the sandboxes use, between two readings at least rateOver apart.
type cpuRate struct {
	mu    sync.Mutex
	at    time.Time
	spent time.Duration
	cores float64
}

// read returns the cores in use at now. spent is the total CPU time of all sandboxes. If it
// shrinks, their control group was recreated, and the measurement starts again.
func (c *cpuRate) read(now time.Time, spent time.Duration) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := now.Sub(c.at)
	switch {
	case c.at.IsZero() || spent < c.spent:
		c.at, c.spent = now, spent
	case passed >= rateOver:
		c.cores = float64(spent-c.spent) / float64(passed)
		c.at, c.spent = now, spent
	}
	return c.cores
}

// load returns the current load of this worker.
func (w *Worker) load() *store.WorkerLoad {
	l := &store.WorkerLoad{Cores: float64(w.Runtime.Host().Cores)}
	l.Running, l.Results = w.leases.count()
	u := w.usage.Last()
	l.MemoryUsed, l.Memory, l.DiskUsed, l.Disk = u.MemoryUsed, u.Memory, u.DiskUsed, u.Disk
	if m, ok := w.Runtime.(runtime.CPUMeter); ok {
		if spent, err := m.CPU(); err == nil { // before the first sandbox there is no control group
			l.CoresUsed = w.cpu.read(time.Now(), spent)
		}
	}
	return l
}
