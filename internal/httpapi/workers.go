package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/recent"
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
	var found []store.Worker
	err := s.reads.do(r.Context(), tenantOf(r), func() (err error) {
		found, err = s.Store.Workers(r.Context(), aliveFor)
		return err
	})
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	out := api.WorkerList{Workers: []store.Worker{}, Pools: s.poolsOf(found)}
	if found != nil && s.Auth.Operator(r) {
		out.Workers = found
	}
	return writeJSON(w, http.StatusOK, out)
}

// poolsOf sums workers up, by the name of their pool. A pool that the configuration names
// is there without any.
func (s *Server) poolsOf(ws []store.Worker) []api.PoolSummary {
	byName := map[string]*api.PoolSummary{}
	of := func(name string) *api.PoolSummary {
		if byName[name] == nil {
			byName[name] = &api.PoolSummary{Pool: name, Exclusive: s.Pools.Exclusive(name)}
		}
		return byName[name]
	}
	for name := range s.Pools {
		of(name)
	}
	for _, w := range ws {
		p := of(w.Pool)
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
		PoolsOf(ctx context.Context, tenant string) ([]string, error)
	}
	pools placement.Pools // what the configuration says of them

	now  *recent.Value[*view]
	past *recent.Value[map[string]bool] // pools that had workers not long ago

	mu  sync.Mutex // of what views hold, and of:
	own map[string]*recent.Value[map[string]bool]
}

// view is the fleet as it was seen once.
type view struct {
	hosts   []host
	classes map[string]bool     // of queued jobs, and of those that were admitted since
	rivals  map[string][]string // what was worked out since
}

func newFleet(s store.Store, pools placement.Pools) *fleet {
	f := &fleet{store: s, pools: pools, own: map[string]*recent.Value[map[string]bool]{}}
	f.now = &recent.Value[*view]{Age: fleetAge, Read: f.look}
	f.past = &recent.Value[map[string]bool]{Age: fleetAge, Read: f.lookBack}
	return f
}

type host struct {
	worker, pool string
	can          policy.Host
	offer        placement.Offer
	cordoned     bool
}

func (h host) takes(n placement.Need) bool { return h.offer.Takes(h.pool, n) }

// hosts returns what the connected workers for a class of jobs can enforce; nothing
// if the list cannot be read, since admission does not depend on it.
func (f *fleet) hosts(class string) []policy.Host {
	var out []policy.Host
	need := placement.ParseClass(class)
	for _, h := range f.list() {
		if h.takes(need) {
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

// Lack says why no connected worker can run the jobs of a class; "" if one can, or
// nothing is known.
func (f *fleet) Lack(class string) string {
	need := placement.ParseClass(class)
	all := f.list()
	if all == nil {
		return ""
	}
	open, cordoned, closed := 0, 0, map[string]bool{} // pools that would take it if it named them
	for _, h := range all {
		switch {
		case h.takes(need) && h.cordoned:
			cordoned++
		case h.takes(need):
			return ""
		case h.offer.Open(h.pool, need):
			open++
		case need.Pool == placement.Any && h.offer.Lacks(need) == "":
			closed[h.pool] = true
		}
	}
	if cordoned > 0 {
		return "waits for a worker: an operator keeps those that could run it from taking jobs"
	}
	who := "none that takes jobs without the name of a pool"
	if need.Pool != placement.Any {
		who = fmt.Sprintf("none of pool %q", need.Pool)
	}
	why := "waits for a worker: " + who + " is connected"
	switch {
	case open > 0 && need.String() == "":
		why = "waits for a worker: those of its pool that are connected are reserved for certain images"
	case open > 0:
		why = fmt.Sprintf("waits for a worker: %s that is connected has what the job needs (%s)", who, need)
	}
	if len(closed) > 0 {
		why += fmt.Sprintf("; pool %s could run it, if the job named it", strings.Join(slices.Sorted(maps.Keys(closed)), " or "))
	}
	return why
}

// Ahead returns the other classes of which jobs wait that some of the workers for a class
// would run, too: nothing of it may pass them. It is at most as old as the list.
func (f *fleet) Ahead(class string) []string {
	v, known, _ := f.now.Get(context.Background())
	if !known {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if rivals, known := v.rivals[class]; known {
		return rivals
	}
	need, rivals := placement.ParseClass(class), []string(nil)
	for other := range v.classes {
		n := placement.ParseClass(other)
		if other != class && slices.ContainsFunc(v.hosts, func(h host) bool { return h.takes(need) && h.takes(n) }) {
			rivals = append(rivals, other)
		}
	}
	v.rivals[class] = rivals
	return rivals
}

// list returns the connected workers; nil where nothing is known of them.
func (f *fleet) list() []host {
	v, known, _ := f.now.Get(context.Background()) // recent has its own patience
	if !known {
		return nil
	}
	return v.hosts
}

func (f *fleet) look(ctx context.Context) (*view, error) {
	ws, err := f.store.Workers(ctx, aliveFor)
	if err != nil {
		return nil, err
	}
	queued, err := f.store.Pools(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{hosts: []host{}, classes: setOf(queued), rivals: map[string][]string{}}
	for _, w := range ws {
		h := host{worker: w.ID, pool: w.Pool, cordoned: w.Cordon != nil}
		_ = json.Unmarshal(w.Offer, &h.offer) // a worker of another version offers nothing special
		h.offer.Exclusive = f.pools.Exclusive(w.Pool)
		if json.Unmarshal(w.Host, &h.can) == nil && len(h.can.Isolations) > 0 {
			v.hosts = append(v.hosts, h)
		}
	}
	return v, nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// rememberPool is for how long a pool without workers is one all the same, if the
// configuration does not name it.
const rememberPool = 24 * time.Hour

func (f *fleet) lookBack(ctx context.Context) (map[string]bool, error) {
	ws, err := f.store.Workers(ctx, rememberPool)
	names := map[string]bool{}
	for _, w := range ws {
		names[w.Pool] = true
	}
	return names, err
}

// pool refuses the name of a pool that does not exist. Where no pool is known, or the list
// cannot be read, any name is good.
func (f *fleet) pool(ctx context.Context, name string) error {
	if _, known := f.pools[name]; known {
		return nil
	}
	if f.past.Latest()[name] {
		return nil
	}
	names, known, _ := f.past.Get(ctx)
	if !known {
		return nil
	}
	all := maps.Clone(names)
	for p := range f.pools {
		all[p] = true
	}
	if len(all) == 0 || all[name] {
		return nil
	}
	return job.Invalid("pool", "there is no pool %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}
