package fleet

import (
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
)

// fullCores is the share of a worker's cores from which on its jobs wait for them.
const fullCores = 0.9

// Waits returns what the queued jobs of a class wait for, and why, as far as workers are the reason. If workers could take
// the jobs now, it returns job.WaitsTurn: the scheduler decides. It returns nothing if no worker is known.
func (f *Fleet) Waits(class string) (job.Wait, string) {
	need := placement.ParseClass(class)
	if wait, why := lacks(need, f.List()); wait != "" {
		if wait, why = lacks(need, f.fresh()); wait != "" { // read anew: nobody is told to wait for a worker that has come since
			return wait, why
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	workers, running, cores, used := 0, 0, 0.0, 0.0
	for _, m := range f.members {
		if m.cordoned || m.draining || m.rest() > 0 || !m.offer.Takes(m.pool, need) {
			continue
		}
		if m.Free > 0 {
			return job.WaitsTurn, "waits for its turn"
		}
		workers, running = workers+1, running+m.load.Running
		cores, used = cores+m.load.Cores, used+m.load.CoresUsed
	}
	switch {
	case workers == 0 && len(f.members) == 0:
		return "", ""
	case workers == 0:
		return job.WaitsWorker, "waits for a worker: those that could run it take no jobs at the moment"
	case cores > 0 && used > fullCores*cores:
		return job.WaitsCores, fmt.Sprintf("waits for cores: %.1f of %.0f are in use on the %d workers that could run it", used, cores, workers)
	}
	return job.WaitsSlot, fmt.Sprintf("waits for a slot: %[2]d jobs use all slots of the %[1]d workers that could run it", workers, running)
}
