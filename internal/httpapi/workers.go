package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
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
	if found == nil {
		found = []store.Worker{}
	}
	return writeJSON(w, http.StatusOK, api.WorkerList{Workers: found})
}

// fleet remembers for a moment what the connected workers can enforce.
type fleet struct {
	registry store.Registry

	mu     sync.Mutex
	listed time.Time
	known  []host
}

type host struct {
	worker, pool string
	can          policy.Host
}

// hosts returns what the connected workers of a pool can enforce; nothing if
// the list cannot be read, since admission does not depend on it.
func (f *fleet) hosts(pool string) []policy.Host {
	var out []policy.Host
	for _, h := range f.list() {
		if h.pool == pool {
			out = append(out, h.can)
		}
	}
	return out
}

func (f *fleet) list() []host {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.listed) < fleetAge {
		return f.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ws, err := f.registry.Workers(ctx, aliveFor)
	if err != nil {
		return nil
	}
	f.listed, f.known = time.Now(), nil
	for _, w := range ws {
		h := host{worker: w.ID, pool: w.Pool}
		if json.Unmarshal(w.Host, &h.can) == nil && len(h.can.Isolations) > 0 {
			f.known = append(f.known, h)
		}
	}
	return f.known
}
