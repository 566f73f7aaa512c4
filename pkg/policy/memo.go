package policy

import (
	"encoding/json"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// Resolver makes the policies of clients whole: parsed over the defaults as the
// ceiling lowers them, checked against the ceiling, written out with nothing
// left to default. It remembers the latest, because the jobs of a batch tend to
// share a few. It is safe for concurrent use.
type Resolver struct {
	ceiling Ceiling
	base    Policy
	memo    memo[Resolved]
}

// Resolved is a policy together with its JSON, to be stored with the job. Both
// are shared between jobs: nobody writes to them.
type Resolved struct {
	Policy Policy
	JSON   json.RawMessage
}

// NewResolver returns a Resolver for the tenants that have this ceiling.
func NewResolver(c Ceiling) *Resolver { return &Resolver{ceiling: c, base: c.Clamp(Default())} }

// Resolve returns the whole of raw. Errors are *job.FieldError for a policy
// that is wrong and *Refusal for one that is above the ceiling.
func (r *Resolver) Resolve(raw json.RawMessage) (Resolved, error) {
	return r.memo.get(raw, func() (Resolved, error) {
		p, err := ParseOver(r.base, raw)
		if err != nil {
			return Resolved{}, err
		}
		if err := r.ceiling.Check(p); err != nil {
			return Resolved{}, err
		}
		whole, err := json.Marshal(p)
		return Resolved{p, whole}, err
	})
}

// Planner plans policies for one host, and remembers the latest. It is safe for
// concurrent use.
type Planner struct {
	host Host
	memo memo[*Plan]
}

// NewPlanner returns a Planner for h, which must not change.
func NewPlanner(h Host) *Planner { return &Planner{host: h} }

// Plan parses and plans raw; see Parse and Policy.Plan for the errors.
func (pl *Planner) Plan(raw json.RawMessage) (*Plan, error) {
	return pl.memo.get(raw, func() (*Plan, error) {
		p, err := Parse(raw)
		if err != nil {
			return nil, err
		}
		return p.Plan(pl.host)
	})
}

const (
	memoEntries = 1024        // of each generation
	memoKey     = 8 * job.KiB // longest key: what is longer is not shared by many
)

// memo remembers the answers to recent questions: at least the latest
// memoEntries, at most twice as many. Errors are not remembered.
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
