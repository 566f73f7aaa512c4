package lease

import (
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// hasteDelay is how long what was killed may take to die under its limit of CPU.
const hasteDelay = 50 * time.Millisecond

// haste lifts the limit of CPU of a group that is on loan, of which everything was
// killed, if it takes its time to die.
type haste struct {
	mu     sync.Mutex
	timer  *time.Timer // runs since a kill; nil: there was none
	turn   int         // the timers of earlier ones count no more
	lifted bool
	ended  bool // the group may be somebody else's
}

func (h *haste) soon(g cgroup.Group) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil || h.ended {
		return
	}
	turn := h.turn
	h.timer = time.AfterFunc(hasteDelay, func() { h.lift(g, turn) })
}

func (h *haste) lift(g cgroup.Group, turn int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if turn != h.turn {
		return
	}
	h.lifted = true
	if err := g.Hasten(); err != nil {
		slog.Warn("cannot lift the limit of CPU of what was killed", "group", g.Path(), "error", err)
	}
}

// settled has nothing lifted because of kills so far, and reports whether the limit is
// lifted already. Then it has to be set again.
func (h *haste) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stop()
}

// end is settled for good.
func (h *haste) end() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	return h.stop()
}

func (h *haste) stop() (lifted bool) {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.turn++
	lifted, h.lifted = h.lifted, false
	return lifted
}
