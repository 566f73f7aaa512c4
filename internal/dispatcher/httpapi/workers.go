package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/browse"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request) error {
	var found []store.Worker
	err := s.reads.Do(r.Context(), web.Tenant(r), func() (err error) {
		found, err = s.Store.Workers(r.Context(), fleet.Connected)
		return err
	})
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	out := api.WorkerList{Workers: []store.Worker{}, Pools: s.poolsOf(found)}
	if web.Identity(r).Role >= identity.Operator {
		if out.Workers, out.Next, err = chosen(r, found); err != nil {
			return err
		}
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// workersMost is the largest page of workers.
const workersMost = 10_000

// chosen returns the page of workers that a request selects, in order of their names, and the cursor of the next page.
func chosen(r *http.Request, all []store.Worker) (page []store.Worker, next string, err error) {
	q := r.URL.Query()
	s := nouns.WorkerSelector{Pool: q.Get("pool"), Version: q.Get("version"), State: nouns.WorkerState(q.Get("state"))}
	if s.State != "" && !slices.Contains(nouns.WorkerStates, s.State) {
		return nil, "", job.Invalid("state", "%.40q must be one of %v", s.State, nouns.WorkerStates)
	}
	if s.Labels, err = browse.Labels(q); err != nil {
		return nil, "", err
	}
	limit, err := web.Int(r, "limit", workersMost, 1, workersMost)
	if err != nil {
		return nil, "", err
	}
	page = []store.Worker{}
	for i := range all {
		switch {
		case all[i].ID <= q.Get("after") && q.Get("after") != "" || !s.Chooses(&all[i]):
		case int64(len(page)) == limit:
			return page, page[limit-1].ID, nil
		default:
			page = append(page, all[i])
		}
	}
	return page, "", nil
}

// poolsOf sums up workers by pool. It includes configured pools without workers.
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
		p.Workers, p.Slots = p.Workers+1, p.Slots+w.Slots
		p.Running, p.Free, p.Busy = p.Running+w.Running, p.Free+w.Free, p.Busy+w.Running
		p.Cores, p.CoresUsed = p.Cores+w.Cores, p.CoresUsed+w.CoresUsed
		if w.Tally != nil {
			p.Sessions += w.Tally.Sessions
		}
	}
	out := make([]api.PoolSummary, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out
}
