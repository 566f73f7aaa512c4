package live

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// making is a session that is not live yet: its image is being fetched, or its sandbox created.
type making struct {
	tenant string
	stop   context.CancelFunc
	closed bool
}

// begin records a session in creation. The context ends if a dispatcher that stopped waiting closes
// it. The caller calls made when the session is live or has failed.
func (m *Manager) begin(ctx context.Context, id job.ID, tenant string) (_ context.Context, made func(), err error) {
	ctx, stop := context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.making[id] != nil || m.live[id] != nil {
		stop()
		return nil, nil, fmt.Errorf("%w: session %s already exists", job.ErrConflict, id)
	}
	m.making[id] = &making{tenant: tenant, stop: stop}
	return ctx, func() {
		stop()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.making, id)
	}, nil
}

// unmake closes a session in creation.
func (m *Manager) unmake(c control.SessionCall) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.making[c.Session]
	if s == nil || s.tenant != c.Tenant {
		return false
	}
	s.closed = true
	s.stop()
	return true
}
