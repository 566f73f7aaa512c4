package live

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// opened opens sessions of 1 GiB.
func opened(t *testing.T, m *Manager, n int) (ids []job.ID) {
	t.Helper()
	for range n {
		c := opening("t", `{"memory":"1Gi"}`)
		if _, err := m.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.Session)
	}
	return ids
}

// TestLostSessionsEnd checks that sessions with an ended record end and release their room, and that others continue.
func TestLostSessionsEnd(t *testing.T) {
	t.Parallel()
	m := manage(t, Config{Runtime: &sandboxes{}, Limits: Limits{Places: 8}})
	ids := opened(t, m, 3)
	if got := m.IDs(); len(got) != 3 {
		t.Fatalf("held are %v", got)
	}
	m.Lose([]job.ID{ids[0], ids[2], job.NewID()})
	await(t, func() bool { return m.Live() == 1 })
	if got := m.IDs(); got[0] != ids[1] {
		t.Errorf("held are %v, want %s", got, ids[1])
	}
	await(t, func() bool {
		m.ledger.mu.Lock()
		defer m.ledger.mu.Unlock()
		return m.ledger.all == shareOf(m.live[ids[1]].policy)
	})
}

// TestUnconfirmedSessionsEnd checks that all sessions end in time without an answer to a heartbeat, and continue with
// one.
func TestUnconfirmedSessionsEnd(t *testing.T) {
	t.Parallel()
	m := manage(t, Config{Runtime: &sandboxes{}, Limits: Limits{Places: 8}})
	opened(t, m, 2)
	now := time.Now()
	m.fence(now.Add(24 * time.Hour)) // a dispatcher of the last release sends no time
	m.Confirm(now, time.Hour)
	m.fence(now.Add(59 * time.Minute))
	m.Confirm(now.Add(50*time.Minute), time.Hour)
	m.fence(now.Add(61 * time.Minute))
	if m.Live() != 2 {
		t.Fatalf("%d sessions are left, want 2", m.Live())
	}
	m.fence(now.Add(111 * time.Minute))
	await(t, func() bool { return m.Live() == 0 })
	await(t, func() bool { m.ledger.mu.Lock(); defer m.ledger.mu.Unlock(); return m.ledger.all == (share{}) })
	c := opening("t", `{"memory":"1Gi"}`)
	m.Confirm(time.Now(), time.Hour)
	if _, err := m.Handle(t.Context(), c); err != nil {
		t.Errorf("a session after the fence: %v", err)
	}
	if _, err := m.Handle(t.Context(), control.SessionCall{Op: control.SessionClose, Session: c.Session, Tenant: "t"}); err != nil {
		t.Error(err)
	}
}
