package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// drain ends the worker's attempts without charging a job for one. Attempts that have not started
// are handed back at once. Running ones may finish for the grace period, then they are killed and
// handed back. drain returns when the ends of all attempts are queued for sending. takers ends when
// no more leases are taken.
func (w *Worker) drain(ctx context.Context, takers *sync.WaitGroup) {
	w.assigning.Lock() // an assignment that was accepted is kept
	w.draining.Store(true)
	w.assigning.Unlock()
	w.beatNow() // the scheduler should stop counting on this worker
	takers.Wait()
	back := w.leases.endIf(errDrained, func(l *lease) bool { return l.phase == preparing })
	slog.InfoContext(ctx, "draining", "running", len(w.leases.all())-back, "handed_back", back, "grace", w.cfg.Grace)

	done := make(chan struct{})
	go func() { w.attempts.Wait(); close(done) }()
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	select {
	case <-done:
		return
	case <-grace.C:
	}
	n := w.leases.endIf(errDrained, func(*lease) bool { return true })
	slog.WarnContext(ctx, "grace period expired", "killed", n)
	<-done
}
