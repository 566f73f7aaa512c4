package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	restartPause    = 100 * time.Millisecond // before the first try to start a daemon again; doubled each time
	restartPauseMax = 10 * time.Second
	restartTime     = 2 * time.Minute // timeout of a restart
)

// Keep restarts the daemon whenever it ends; its containers keep running. Failed restarts are
// repeated forever. stop ends this, then stops the daemon and everything under it, like Stop.
func (c *Containerd) Keep(log *slog.Logger) (stop func(context.Context) error) {
	ctx, quit := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.proc.Done():
			}
			if ctx.Err() != nil {
				return
			}
			log.Error("containerd ended; restarting it", "error", c.proc.Err())
			c.revive(ctx, log)
		}
	})
	return func(stopping context.Context) error {
		quit()
		keeper.Wait()
		return c.Stop(stopping)
	}
}

// revive restarts the daemon, or returns when ctx ends.
func (c *Containerd) revive(ctx context.Context, log *slog.Logger) {
	for pause := restartPause; ctx.Err() == nil; pause = min(2*pause, restartPauseMax) {
		within, cancel := context.WithTimeout(ctx, restartTime)
		err := c.restart(within)
		cancel()
		if err == nil {
			log.Info("containerd available again")
			return
		}
		if ctx.Err() == nil {
			log.Error("containerd not started; retrying", "in", pause, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
