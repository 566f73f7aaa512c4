package share

import (
	"context"
	"sync"
	"time"
)

// readPatience is how long a large read waits for its turn. Who waits longer would see
// a slow fleet; who is told can ask less.
const readPatience = 5 * time.Second

// waitingReads is how many large reads may wait for each that is under way; further ones
// are refused at once.
const waitingReads = 64

// Turns lets so many large reads happen at once: pages of results, lists, cancels of
// many jobs. The rest of the database's connections is for what is small. A turn goes to
// the tenant that has the fewest, and of its reads to the one that waits longest.
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

// NewTurns returns turns for so many at once.
func NewTurns(most int) *Turns { return &Turns{most: most, held: map[string]int{}} }

// Do calls f when it is the tenant's turn. It is job.ErrTooMany, and f was not called, if
// that takes too long.
func (t *Turns) Do(ctx context.Context, tenant string, f func() error) error {
	if err := t.take(ctx, tenant); err != nil {
		return err
	}
	defer t.give(tenant)
	return f()
}

func (t *Turns) take(ctx context.Context, tenant string) error {
	t.mu.Lock()
	if t.all < t.most { // then nobody waits
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
		return nil // it was given just now
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.refusal()
}

func (t *Turns) refusal() error {
	return Later(time.Second, "this dispatcher does %d large reads at once (pages of results, lists, cancels of many jobs), and too many wait for their turn", t.most)
}

// leave takes a turn out of the queue; false: it was given before.
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
