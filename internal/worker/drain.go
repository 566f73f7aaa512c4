package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// drain ends the worker's attempts without costing anybody one: what has not
// begun is handed back at once, what runs may finish for the grace period and
// is then killed and handed back. It returns when all of them are on their way
// to the record or back. takers ends when no more leases are taken.
func (w *Worker) drain(ctx context.Context, takers *sync.WaitGroup) {
	w.assigning.Lock() // who has been told that a job is taken is right
	w.draining.Store(true)
	w.assigning.Unlock()
	w.beatNow() // the scheduler should not count on this worker any more
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
