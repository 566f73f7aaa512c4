package live

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// IDs returns the ids of the sessions.
func (m *Manager) IDs() []job.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.live))
}

// Lose ends the sessions whose record has ended, or names another worker.
func (m *Manager) Lose(ids []job.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if l := m.live[id]; l != nil {
			slog.WarnContext(m.base, "session killed: its record has ended", "session", id)
			l.kill(job.Lost, "its worker sent no heartbeat, so it was recorded as lost")
		}
	}
}

// Confirm notes that a dispatcher answered a heartbeat that was sent at a time. Without another
// answer, the sessions end after ttl; 0 is never.
func (m *Manager) Confirm(sent time.Time, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until = (time.Time{}); ttl > 0 {
		m.until = sent.Add(ttl)
	}
}

// fence ends all sessions before their records may end, if no dispatcher has answered for so long. So a record never
// ends before its session.
func (m *Manager) fence(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until.IsZero() || now.Before(m.until) || len(m.live) == 0 {
		return
	}
	slog.WarnContext(m.base, "sessions self-fenced: no dispatcher responded in time", "sessions", len(m.live))
	for _, l := range m.live {
		l.kill(job.Lost, "no dispatcher answered its worker in time")
	}
}
