package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/store"
)

const (
	topicSchedule = "schedule"
	gatherHints   = 10 * time.Millisecond // before they are sent
)

// peerEvent is what happened at a dispatcher that does not schedule.
type peerEvent struct {
	Queued bool           `json:"queued,omitempty"`
	Took   map[string]int `json:"took,omitempty"`  // claims by worker; zero: some were refused
	Ended  map[string]int `json:"ended,omitempty"` // jobs that left a worker
	Hints  store.Hints    `json:"hints"`           // for the store's Schedule
}

// hintStore is what peerEvents needs of the store.
type hintStore interface {
	Hints() store.Hints
	Hear(store.Hints)
}

// peerEvents tells the leader, a few times at most in the time of a look. One that gets
// lost costs a second: the leader looks by itself then.
type peerEvents struct {
	bus   control.Bus
	store hintStore
	log   *slog.Logger

	mu      sync.Mutex
	pending *peerEvent
}

// add has change put into the next message.
func (h *peerEvents) add(change func(*peerEvent)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending == nil {
		h.pending = &peerEvent{Took: map[string]int{}, Ended: map[string]int{}}
		time.AfterFunc(gatherHints, h.send)
	}
	change(h.pending)
}

func (h *peerEvents) send() {
	h.mu.Lock()
	next := h.pending
	h.pending = nil
	h.mu.Unlock()
	next.Hints = h.store.Hints()
	raw, err := json.Marshal(next)
	if err == nil {
		err = h.bus.Wake(topicSchedule, raw)
	}
	if err != nil {
		h.log.Warn("event for the leader not sent; the leader will poll", "error", err)
	}
}

// listen has f called with what happened at other dispatchers, until ctx ends.
func (h *peerEvents) listen(ctx context.Context, f func(peerEvent)) error {
	return h.bus.OnWake(ctx, topicSchedule, func(raw []byte) {
		var got peerEvent
		if err := json.Unmarshal(raw, &got); err != nil {
			h.log.WarnContext(ctx, "invalid event of a peer dropped", "error", err)
			return
		}
		f(got)
	})
}
