package share

import (
	"context"
	"sync"
	"time"
)

// readPatience is how long a large read waits for its turn. A longer wait would look like a slow
// fleet; after an error the caller can ask for less.
const readPatience = 5 * time.Second

// waitingReads is the maximum number of waiting large reads for each running one. Further reads are
// rejected at once.
const waitingReads = 64

// Turns limits concurrent large reads: pages of results, lists, cancels of many jobs. The other
// connections of the database are for small queries. A turn goes to the tenant with the fewest
// turns, and within the tenant to the read that has waited longest.
type Turns struct {
	most int

	mu    sync.Mutex
	all   int
	held  map[string]int
	queue []*turn
}

type turn struct {
	tenant string
	given  chan struct{}
}

// NewTurns returns a Turns with the given number of concurrent turns.
func NewTurns(most int) *Turns { return &Turns{most: most, held: map[string]int{}} }

// Do calls f when it is the tenant's turn. If that takes too long, it returns job.ErrTooMany
// without a call of f.
func (t *Turns) Do(ctx context.Context, tenant string, f func() error) error {
	if err := t.take(ctx, tenant); err != nil {
		return err
	}
	defer t.give(tenant)
	return f()
}

func (t *Turns) take(ctx context.Context, tenant string) error {
	t.mu.Lock()
	if t.all < t.most { // nothing is waiting
		t.grant(tenant)
		t.mu.Unlock()
		return nil
	}
	if len(t.queue) >= t.most*waitingReads {
		t.mu.Unlock()
		return t.refusal()
	}
	mine := &turn{tenant, make(chan struct{})}
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	timer := time.NewTimer(readPatience)
	defer timer.Stop()
	select {
	case <-mine.given:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if !t.leave(mine) {
		return nil // the turn was granted just now
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.refusal()
}

func (t *Turns) refusal() error {
	return Later(time.Second, "this dispatcher does %d large reads at once (pages of results, lists, cancels of many jobs), and too many wait for their turn", t.most)
}

// leave removes a turn from the queue. It returns false if the turn was already granted.
func (t *Turns) leave(mine *turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.queue {
		if w == mine {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (t *Turns) grant(tenant string) {
	t.all++
	t.held[tenant]++
}

func (t *Turns) give(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.held[tenant]--; t.held[tenant] == 0 {
		delete(t.held, tenant)
	}
	if len(t.queue) == 0 {
		return
	}
	next := 0
	for i, w := range t.queue {
		if t.held[w.tenant] < t.held[t.queue[next].tenant] {
			next = i
		}
	}
	w := t.queue[next]
	t.queue = append(t.queue[:next], t.queue[next+1:]...)
	t.grant(w.tenant)
	close(w.given)
}
