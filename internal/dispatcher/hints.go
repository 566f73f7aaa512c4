package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/queue"
)

const (
	topicSchedule = "schedule"
	gatherHints   = 10 * time.Millisecond // before they are sent
)

// hint is what happened at a dispatcher that does not schedule.
type hint struct {
	Queued bool           `json:"queued,omitempty"`
	Took   map[string]int `json:"took,omitempty"`  // claims by worker; zero: some were refused
	Ended  map[string]int `json:"ended,omitempty"` // jobs that left a worker
}

// hints tells the leader, a few times at most in the time of a look. One that gets
// lost costs a second: the leader looks by itself then.
type hints struct {
	bus queue.Bus
	log *slog.Logger

	mu      sync.Mutex
	pending *hint
}

// add has change put into the next message.
func (h *hints) add(change func(*hint)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending == nil {
		h.pending = &hint{Took: map[string]int{}, Ended: map[string]int{}}
		time.AfterFunc(gatherHints, h.send)
	}
	change(h.pending)
}

func (h *hints) send() {
	h.mu.Lock()
	next := h.pending
	h.pending = nil
	h.mu.Unlock()
	raw, err := json.Marshal(next)
	if err == nil {
		err = h.bus.Wake(topicSchedule, raw)
	}
	if err != nil {
		h.log.Warn("hint not sent; the leader looks by itself", "error", err)
	}
}

// listen has f called with what happened at other dispatchers, until ctx ends.
func (h *hints) listen(ctx context.Context, f func(hint)) error {
	return h.bus.OnWake(ctx, topicSchedule, func(raw []byte) {
		var got hint
		if err := json.Unmarshal(raw, &got); err != nil {
			h.log.WarnContext(ctx, "hint dropped", "error", err)
			return
		}
		f(got)
	})
}
