package fleet

import (
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
)

// fullCores is the share of used cores above which jobs wait for cores.
const fullCores = 0.9

// Waits returns why the queued jobs of a class wait, as far as workers are the reason. If a worker could take the
// jobs now, it returns job.WaitsTurn, since the scheduler decides. It returns "" if no worker is known.
func (f *Fleet) Waits(class string) (job.Wait, string) {
	need := placement.ParseClass(class)
	if wait, _ := lacks(need, f.List()); wait != "" {
		if wait, why := lacks(need, f.fresh()); wait != "" { // read again: a worker may have connected since
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
		return job.WaitsWorker, "waits for a worker: the suitable workers take no jobs at the moment"
	case cores > 0 && used > fullCores*cores:
		return job.WaitsCores, fmt.Sprintf("waits for cores: %.1f of %.0f are in use on the %d workers that could run it", used, cores, workers)
	}
	if running == 0 { // jobs that were dispatched since the last heartbeats
		return job.WaitsSlot, fmt.Sprintf("waits for a slot: those of the %d workers that could run it are taken", workers)
	}
	return job.WaitsSlot, fmt.Sprintf("waits for a slot: the workers that could run it (%d) have no free slots; running jobs there: %d", workers, running)
}
