// Package budget divides an amount of the process's memory between the tenants whose jobs need it.
//
// Code that needs much memory for a job enters a Memory with the size, and leaves when it has released the memory. It
// waits while there is no room. One tenant gets at most its share, so that the others do not wait for it.
package budget

import (
	"context"
	"slices"
	"sync"
)

// Memory is an amount of memory in bytes. Waiting callers enter in the order of their arrival, but a tenant at its
// share lets others pass.
type Memory struct {
	size, share int

	mu      sync.Mutex
	taken   int
	by      map[string]int // bytes that each tenant has taken
	waiting []*request
}

type request struct {
	tenant  string
	n       int
	granted chan struct{} // closed when it has entered
}

// New returns a Memory of size bytes. A tenant gets at most share of them.
func New(size, share int) *Memory { return &Memory{size: size, share: share, by: map[string]int{}} }

// Enter waits for room for n bytes, at most a tenant's share, and returns the function that releases it. If ctx ends
// first, Enter returns its cause and a function that does nothing.
func (m *Memory) Enter(ctx context.Context, tenant string, n int) (leave func(), err error) {
	r := &request{tenant: tenant, n: min(n, m.share), granted: make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, r)
	m.grant()
	m.mu.Unlock()
	select {
	case <-r.granted:
		return sync.OnceFunc(func() { m.leave(r) }), nil
	default:
	}
	select {
	case <-r.granted:
		return sync.OnceFunc(func() { m.leave(r) }), nil
	case <-ctx.Done():
		m.forget(r)
		return func() {}, context.Cause(ctx)
	}
}

// grant admits the requests that fit. Later requests do not pass one that waits for room.
func (m *Memory) grant() {
	m.waiting = slices.DeleteFunc(m.waiting, func() func(*request) bool {
		full := false
		return func(r *request) bool {
			if full || m.by[r.tenant]+r.n > m.share {
				return false
			}
			if full = m.taken+r.n > m.size; full {
				return false
			}
			m.taken += r.n
			m.by[r.tenant] += r.n
			close(r.granted)
			return true
		}
	}())
}

func (m *Memory) leave(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken -= r.n
	if m.by[r.tenant] -= r.n; m.by[r.tenant] == 0 {
		delete(m.by, r.tenant)
	}
	m.grant()
}

// forget withdraws a request, which may have been granted meanwhile.
func (m *Memory) forget(r *request) {
	m.mu.Lock()
	before := len(m.waiting)
	m.waiting = slices.DeleteFunc(m.waiting, func(w *request) bool { return w == r })
	waited := len(m.waiting) < before
	if waited {
		m.grant() // those behind it may enter now
	}
	m.mu.Unlock()
	if !waited {
		m.leave(r)
	}
}
