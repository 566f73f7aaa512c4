package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// aliveFor is how long after its last heartbeat a worker counts as part of
	// the fleet: six heartbeats.
	aliveFor = 30 * time.Second
	// fleetAge is how old the list of hosts that admission judges by may be.
	fleetAge = 2 * time.Second
)

func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Store.Workers(r.Context(), aliveFor)
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	out := api.WorkerList{Workers: []store.Worker{}, Pools: pools(found)}
	if found != nil && s.Auth.Operator(r) {
		out.Workers = found
	}
	return writeJSON(w, http.StatusOK, out)
}

// pools sums workers up, by the name of their pool.
func pools(ws []store.Worker) []api.PoolSummary {
	byName := map[string]*api.PoolSummary{}
	for _, w := range ws {
		p := byName[w.Pool]
		if p == nil {
			p = &api.PoolSummary{Pool: w.Pool}
			byName[w.Pool] = p
		}
		p.Workers, p.Slots, p.Busy = p.Workers+1, p.Slots+w.Slots, p.Busy+w.Busy
	}
	out := make([]api.PoolSummary, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out
}

// fleet remembers for a moment which workers are connected and what waits for
// them.
type fleet struct {
	store interface {
		store.Registry
		Pools(ctx context.Context) ([]string, error)
	}

	mu      sync.Mutex
	listed  time.Time
	known   []host
	classes map[string]bool // of queued jobs
}

type host struct {
	worker, pool string
	can          policy.Host
	offer        placement.Offer
}

// hosts returns what the connected workers for a class of jobs can enforce; nothing
// if the list cannot be read, since admission does not depend on it.
func (f *fleet) hosts(class string) []policy.Host {
	var out []policy.Host
	need := placement.ParseClass(class)
	for _, h := range f.list() {
		if h.pool == need.Pool && h.offer.Lacks(need) == "" {
			out = append(out, h.can)
		}
	}
	return out
}

// reserved says whether there are workers that take jobs with this image and
// few others.
func (f *fleet) reserved(image string) bool {
	return slices.ContainsFunc(f.list(), func(h host) bool { return slices.Contains(h.offer.Images, image) })
}

// lack says why no connected worker can run the jobs of a class; "" if one can, or
// nothing is known.
func (f *fleet) lack(class string) string {
	need := placement.ParseClass(class)
	all := f.list()
	if all == nil {
		return ""
	}
	connected := false
	for _, h := range all {
		if h.pool != need.Pool {
			continue
		}
		if h.offer.Lacks(need) == "" {
			return ""
		}
		connected = true
	}
	switch {
	case !connected:
		return fmt.Sprintf("waits for a worker: none of pool %q is connected", need.Pool)
	case need.String() == "":
		return fmt.Sprintf("waits for a worker: those of pool %q that are connected are reserved for certain images", need.Pool)
	}
	return fmt.Sprintf("waits for a worker: none of pool %q that is connected has what the job needs (%s)", need.Pool, need)
}

// maxClasses bounds the classes of jobs that wait at once: each costs the
// scheduler a look.
const maxClasses = 256

func (f *fleet) room(_ context.Context, class string) error {
	f.list()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.classes[class] && len(f.classes) >= maxClasses {
		return fmt.Errorf("%w: jobs with %d different needs of a worker wait already", job.ErrUnavailable, maxClasses)
	}
	if f.classes != nil {
		f.classes[class] = true
	}
	return nil
}

func (f *fleet) list() []host {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.listed) < fleetAge {
		return f.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ws, err := f.store.Workers(ctx, aliveFor)
	if err != nil {
		return nil
	}
	pools, err := f.store.Pools(ctx)
	if err != nil {
		return nil
	}
	f.listed, f.known, f.classes = time.Now(), []host{}, map[string]bool{}
	for _, p := range pools {
		f.classes[p] = true
	}
	for _, w := range ws {
		h := host{worker: w.ID, pool: w.Pool}
		_ = json.Unmarshal(w.Offer, &h.offer) // a worker of another version offers nothing special
		if json.Unmarshal(w.Host, &h.can) == nil && len(h.can.Isolations) > 0 {
			f.known = append(f.known, h)
		}
	}
	return f.known
}
