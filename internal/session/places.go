package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// places remembers which worker holds a session: that never changes. Not every end is
// heard of here, so what is remembered is bounded: beyond it the record is read again.
type places struct {
	mu    sync.Mutex
	known map[placeKey]place
}

// maxPlaces is how many sessions are remembered.
const maxPlaces = 10_000

type placeKey struct {
	tenant string
	id     job.ID
}

// place is where a session is, and what of it never changes.
type place struct {
	worker string
	kind   job.SessionKind
	lease  time.Duration
}

func placeOf(v *job.Session) place { return place{v.Worker, v.Spec.Kind, v.Spec.Lease.D()} }

func (p *places) get(k placeKey) (at place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok = p.known[k]
	return at, ok
}

func (p *places) put(k placeKey, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = map[placeKey]place{}
	}
	p.known[k] = at
}

func (p *places) drop(k placeKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, k)
}

// place returns where a live session of the tenant is.
func (s *Service) place(ctx context.Context, tenant string, id job.ID) (place, error) {
	if p, ok := s.places.get(placeKey{tenant, id}); ok {
		return p, nil
	}
	if s.Line == nil {
		return place{}, errOff
	}
	v, err := s.Store.Session(ctx, tenant, id)
	if err != nil {
		return place{}, fmt.Errorf("read session: %w", err)
	}
	if v.State == job.SessionEnded {
		return place{}, hasEnded(id, v.Outcome, v.Message)
	}
	p := placeOf(v)
	s.places.put(placeKey{tenant, id}, p)
	return p, nil
}

var errOff = fmt.Errorf("%w: sessions are switched off here", job.ErrUnavailable)
