package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Sixteen readers hold on to what they got of four connections: heartbeats, claims,
// records and the leader have the rest. On c877d6f they waited for the readers.
func TestReadersLeaveConnections(t *testing.T) {
	s := openTest(t, Config{MaxConns: 4})
	ctx, cancel := context.WithCancel(t.Context())
	release, held := make(chan struct{}), make(chan struct{}, 16)
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			_ = s.do(ctx, "a slow read", func(ctx context.Context) error {
				conn, err := s.pool.Acquire(ctx)
				if err != nil {
					return err
				}
				defer conn.Release()
				held <- struct{}{}
				<-release
				return nil
			})
		})
	}
	defer readers.Wait()
	defer cancel() // those that never had one give up
	defer close(release)
	for range 3 {
		<-held
	}
	urgent, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := s.Lead(urgent, "role", "me", time.Minute); err != nil {
		t.Errorf("the leader: %v", err)
	}
	if err := s.PutWorkers(urgent, []store.Worker{{ID: "w", Pool: "p"}}); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	if _, err := s.Claim(urgent, time.Minute, []store.Claim{{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Worker: "w"}}); err != nil {
		t.Errorf("a claim: %v", err)
	}
	if _, err := s.Schedule(urgent, []string{""}, 1); err != nil {
		t.Errorf("a look of the scheduler: %v", err)
	}
	if n := s.pool.Stat().AcquiredConns(); n != 3 {
		t.Errorf("readers hold %d of 4 connections, want 3", n)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for conns, want := range map[int32]int{1: 0, 2: 1, 4: 3, 16: 12} {
		if got := cap(newShare(conns).places); got != want {
			t.Errorf("of %d connections %d are shared, want %d", conns, got, want)
		}
	}
	s := newShare(2)
	inside, leave, err := s.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := s.enter(inside); err != nil { // or a call within a call would wait for itself
		t.Errorf("within: %v", err)
	} else {
		again()
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.enter(over); !errors.Is(err, context.Canceled) {
		t.Errorf("beside: %v, want to have waited", err)
	}
	if s.waited.Load() != 1 || s.gaveUp.Load() != 1 || s.nanos.Load() == 0 {
		t.Errorf("%d waits for %d ns, of which %d were given up; want 1, some and 1", s.waited.Load(), s.nanos.Load(), s.gaveUp.Load())
	}
	leave()
	if _, leave, err := s.enter(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	} else {
		leave()
	}
}
