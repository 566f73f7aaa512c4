package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/store"
)

// getFleet responds with the state of the fleet. Callers below operator see only their own tenant's queue, and no
// workers.
func (s *Server) getFleet(w http.ResponseWriter, r *http.Request) error {
	now, _, err := s.glance.Get(r.Context())
	if err != nil {
		return fmt.Errorf("look at the fleet: %w", err)
	}
	out := now
	out.Pools = s.poolsOf(now.Workers)
	out.Queue = s.waiting.explain(r.Context(), now.Queue)
	if web.Identity(r).Role < identity.Operator {
		all := out.Queue
		out.Workers, out.Queue = []store.Worker{}, []store.QueueGroup{}
		for _, g := range all {
			if g.Tenant == web.Tenant(r) {
				out.Queue = append(out.Queue, g)
			}
		}
		return web.WriteJSON(w, http.StatusOK, out)
	}
	if out.Workers, out.Next, err = chosen(r, now.Workers); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// queueNow returns the cached state of the queue.
func (s *Server) queueNow(ctx context.Context) ([]store.QueueGroup, error) {
	now, _, err := s.glance.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the queue: %w", err)
	}
	return now.Queue, nil
}

// glanceStore is the part of the store that newGlance reads.
type glanceStore interface {
	Workers(ctx context.Context, seenWithin time.Duration) ([]store.Worker, error)
	Queue(ctx context.Context) ([]store.QueueGroup, error)
}

// newGlance returns a cache of the fleet's state. It queries the database at most once a second for any number of
// readers, and less often if the query is slow. Readers get the error of a failed query.
func newGlance(s glanceStore) *recent.Value[api.Fleet] {
	return &recent.Value[api.Fleet]{Age: time.Second, Thrift: 20, Within: 15 * time.Second, Read: func(ctx context.Context) (api.Fleet, error) {
		workers, err := s.Workers(ctx, fleet.Connected)
		if err != nil {
			return api.Fleet{}, err
		}
		queue, err := s.Queue(ctx)
		if err != nil {
			return api.Fleet{}, err
		}
		if workers == nil {
			workers = []store.Worker{}
		}
		if queue == nil {
			queue = []store.QueueGroup{}
		}
		return api.Fleet{At: time.Now().UTC(), Workers: workers, Queue: queue}, nil
	}}
}
