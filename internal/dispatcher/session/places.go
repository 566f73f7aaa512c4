package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// places caches the worker of each session, which never changes. It has a size limit, because not
// every end is reported here. Evicted entries are read again from the record.
type places struct {
	mu    sync.Mutex
	known map[placeKey]place
}

// maxPlaces is the most cached sessions.
const maxPlaces = 10_000

type placeKey struct {
	tenant string
	id     job.ID
}

// place is the location of a session and its other constants.
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

// place returns the location of a tenant's live session.
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
