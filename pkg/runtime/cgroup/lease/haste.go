package lease

import (
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// hasteDelay is how long killed processes may take to die under their CPU limit.
const hasteDelay = 50 * time.Millisecond

// haste removes the CPU limit of a lent group whose killed processes do not die in time.
type haste struct {
	mu     sync.Mutex
	timer  *time.Timer // runs since a kill; nil: no kill
	turn   int         // ignores earlier timers
	lifted bool
	ended  bool // another job may have the group
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
		slog.Warn("CPU limit of killed processes not lifted", "group", g.Path(), "error", err)
	}
}

// settled cancels pending removals of the limit, and reports whether the limit is already removed.
// Then it must be set again.
func (h *haste) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stop()
}

// end is settled permanently.
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
