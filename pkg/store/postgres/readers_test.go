package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestReadersLeaveConnections checks that sixteen readers keep only some of four connections. Heartbeats,
// claims, records and the leader have the rest. On c877d6f they waited for the readers.
func TestReadersLeaveConnections(t *testing.T) {
	s := openTest(t, Config{MaxConns: 4})
	ctx, cancel := context.WithCancel(t.Context())
	release, held := make(chan struct{}), make(chan struct{}, 16)
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			_ = s.db.Do(ctx, "a slow read", func(ctx context.Context) error {
				conn, err := s.db.Pool.Acquire(ctx)
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
	if n := s.db.Pool.Stat().AcquiredConns(); n != 3 {
		t.Errorf("readers hold %d of 4 connections, want 3", n)
	}
}
