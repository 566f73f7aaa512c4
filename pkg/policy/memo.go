package policy

import (
	"encoding/json"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// Planner plans policies for one host. It caches recent plans, because the jobs of a batch tend to
// share a few policies. It is safe for concurrent use.
type Planner struct {
	host Host

	mu   sync.Mutex
	memo map[Use]*memo[*Plan]
}

// NewPlanner returns a Planner for h, which must not change.
func NewPlanner(h Host) *Planner { return &Planner{host: h, memo: map[Use]*memo[*Plan]{}} }

// Plan parses and plans raw for a kind of program; see Parse and Policy.PlanFor for
// the errors.
func (pl *Planner) Plan(raw json.RawMessage, u Use) (*Plan, error) {
	return pl.of(u).get(raw, func() (*Plan, error) {
		p, err := Parse(raw)
		if err != nil {
			return nil, err
		}
		return p.PlanFor(pl.host, u)
	})
}

// of returns the cache of plans for a kind of program.
func (pl *Planner) of(u Use) *memo[*Plan] {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	m := pl.memo[u]
	if m == nil {
		m = &memo[*Plan]{}
		pl.memo[u] = m
	}
	return m
}

const (
	memoEntries = 1024        // in each generation
	memoKey     = 8 * job.KiB // longest key; longer policies are rarely shared
)

// memo is a cache of at least the latest memoEntries values and at most twice as many. It does not
// cache errors.
type memo[V any] struct {
	mu       sync.Mutex
	now, old map[string]V
}

func (m *memo[V]) get(key []byte, find func() (V, error)) (V, error) {
	m.mu.Lock()
	v, ok := m.now[string(key)]
	if !ok {
		if v, ok = m.old[string(key)]; ok {
			m.put(string(key), v)
		}
	}
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := find()
	if err == nil && len(key) <= int(memoKey) {
		m.mu.Lock()
		m.put(string(key), v)
		m.mu.Unlock()
	}
	return v, err
}

// put adds an entry; the caller holds the lock.
func (m *memo[V]) put(key string, v V) {
	if len(m.now) >= memoEntries || m.now == nil {
		m.now, m.old = make(map[string]V, memoEntries), m.now
	}
	m.now[key] = v
}
