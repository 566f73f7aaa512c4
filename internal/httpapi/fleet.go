package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/store"
)

// getFleet answers those who look at the fleet.
func (s *Server) getFleet(w http.ResponseWriter, r *http.Request) error {
	now, err := s.glance.look(r.Context())
	if err != nil {
		return fmt.Errorf("look at the fleet: %w", err)
	}
	out := now
	out.Pools = s.poolsOf(now.Workers)
	if !s.Auth.Operator(r) {
		out.Workers, out.Queue = []store.Worker{}, []store.QueueGroup{}
		for _, g := range now.Queue {
			if g.Tenant == tenantOf(r) {
				out.Queue = append(out.Queue, g)
			}
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// glance remembers for a moment what the fleet does: however many look, the database
// is asked by one, once a second at most, and less often where that takes long.
type glance struct {
	store interface {
		Workers(ctx context.Context, seenWithin time.Duration) ([]store.Worker, error)
		Queue(ctx context.Context) ([]store.QueueGroup, error)
	}

	mu    sync.Mutex
	seen  api.Fleet
	until time.Time
}

func (g *glance) look(ctx context.Context) (api.Fleet, error) {
	g.mu.Lock() // others wait for who asks, and have its answer
	defer g.mu.Unlock()
	if time.Now().Before(g.until) {
		return g.seen, nil
	}
	start := time.Now()
	workers, err := g.store.Workers(ctx, aliveFor)
	if err != nil {
		return api.Fleet{}, err
	}
	queue, err := g.store.Queue(ctx)
	if err != nil {
		return api.Fleet{}, err
	}
	if workers == nil {
		workers = []store.Worker{}
	}
	if queue == nil {
		queue = []store.QueueGroup{}
	}
	g.seen = api.Fleet{At: time.Now().UTC(), Workers: workers, Queue: queue}
	g.until = time.Now().Add(max(time.Second, 20*time.Since(start)))
	return g.seen, nil
}
