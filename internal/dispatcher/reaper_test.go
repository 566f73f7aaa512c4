package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/store"
)

// stuckStore is a store whose Reap does not return.
type stuckStore struct {
	store.Store
	once   sync.Once
	began  chan struct{} // closed by the first Reap
	leases atomic.Int64
}

func (s *stuckStore) Reap(ctx context.Context) (store.ReapStats, error) {
	s.once.Do(func() { close(s.began) })
	<-ctx.Done()
	return store.ReapStats{}, ctx.Err()
}

func (s *stuckStore) ReapLeases(context.Context) (store.ReapStats, error) {
	s.leases.Add(1)
	return store.ReapStats{}, nil
}

func (*stuckStore) Unclaimed(ctx context.Context, _ time.Duration, _ int) ([]store.Dispatch, error) {
	return nil, ctx.Err()
}

func (*stuckStore) ReapSessions(context.Context, time.Duration) (int64, error) { return 0, nil }

// TestLeasesDoNotWait checks that leases are taken back while the rest of a round of the reaper hangs.
func TestLeasesDoNotWait(t *testing.T) {
	t.Parallel()
	s := &stuckStore{began: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	l := newLeader(s, log)
	m, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	l.until.Store(int64(time.Hour))
	r := &reaper{store: s, leader: l, sessions: &session.Ends{Store: s, Log: log}, metrics: m, reaped: func(time.Time, time.Duration, map[string]time.Duration, error) {}, log: log, every: time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.run(ctx) }()
	testenv.Receive(t, "the rest of the round", s.began)
	before := s.leases.Load()
	for deadline := time.Now().Add(10 * time.Second); s.leases.Load() < before+3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("leases wait for the rest of the round")
		}
	}
	stop()
	testenv.Receive(t, "the end", ended)
}
