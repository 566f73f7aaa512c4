package fleet

import (
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/store"
)

// Load is the work of one pool's workers, and their room for more.
type Load struct {
	Workers, Cordoned, Quarantined int
	Slots                          int
	Free                           int // slots that would take a job now; 0 for workers that take none
	Running                        int // jobs, however long they have run
	Sessions                       int
	Cores, CoresUsed               float64
	Results                        int // results not confirmed by a dispatcher yet
}

// Loads returns the load of each pool with workers. Draining workers count, since they still work.
func (f *Fleet) Loads() map[string]Load {
	f.mu.Lock()
	defer f.mu.Unlock()
	pools := map[string]Load{}
	for _, m := range f.members {
		p := pools[m.pool]
		p.Workers, p.Slots = p.Workers+1, p.Slots+m.Slots
		p.Running, p.Sessions, p.Results = p.Running+m.load.Running, p.Sessions+m.sessions, p.Results+m.load.Results
		p.Cores, p.CoresUsed = p.Cores+m.load.Cores, p.CoresUsed+m.load.CoresUsed
		switch {
		case m.cordoned:
			p.Cordoned++
		case m.rest() > 0:
			p.Quarantined++
		default:
			p.Free += m.Free
		}
		pools[m.pool] = p
	}
	return pools
}

// loadOf returns the load that a worker reports. Workers of earlier releases report their jobs as busy slots.
func loadOf(w control.WorkerInfo) store.WorkerLoad {
	if w.Load != nil {
		return *w.Load
	}
	return store.WorkerLoad{Running: w.Busy, Cores: float64(w.Host.Cores)}
}

func sessionsOf(t *store.Tally) int {
	if t == nil {
		return 0
	}
	return t.Sessions
}
