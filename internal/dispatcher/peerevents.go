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

// peerEvent is the events at a dispatcher that does not lead.
type peerEvent struct {
	Queued bool           `json:"queued,omitempty"`
	Took   map[string]int `json:"took,omitempty"`  // claims by worker; zero: some were refused
	Ended  map[string]int `json:"ended,omitempty"` // jobs that left a worker
	Hints  store.Hints    `json:"hints"`           // for the store's Schedule
}

// hintStore is the part of the store that peerEvents uses.
type hintStore interface {
	Hints() store.Hints
	AddHints(store.Hints)
}

// peerEvents sends events to the leader, at most once per gatherHints. A lost message delays jobs by at most
// Config.ScheduleEvery, after which the leader makes a pass anyway.
type peerEvents struct {
	bus   control.Bus
	store hintStore
	log   *slog.Logger

	mu      sync.Mutex
	pending *peerEvent
}

// add applies change to the next message.
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

// listen calls f with the events of other dispatchers until ctx ends.
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
