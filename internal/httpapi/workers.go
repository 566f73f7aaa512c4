package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/httpapi/web"
	"github.com/assay-run/assay/internal/identity"
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
	if found != nil && web.Identity(r).Role >= identity.Operator {
		out.Workers = found
	}
	return web.WriteJSON(w, http.StatusOK, out)
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
