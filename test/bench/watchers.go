package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/assay-run/assay/internal/pause"
)

const (
	watcherCount = 5000             // unless -n sets it; one tenant gets half of a dispatcher's concurrent requests
	watcherWait  = 20 * time.Second // of one request, and the time over which the first requests are spread
)

// watchers measures the cost of very many clients that each wait for a batch that does not end.
// "dispatcher_cores" are the cores that the dispatcher uses, "idle_cores" are the same without
// waiting clients. The worker is stopped meanwhile.
func watchers(ctx context.Context, b *bench) (r Report, err error) {
	n := b.n
	if n == 0 {
		n = watcherCount
	}
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	db, err := t.database()
	if err != nil {
		return nil, err
	}
	worker, err := t.child("worker")
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Kill(worker.PID, syscall.SIGCONT) }() // a stopped worker would not end
	ids, err := t.heldBatches(ctx, db, worker, n)
	if err != nil {
		return nil, err
	}
	b.logf("%d batches, and nobody waits", n)
	idle, err := t.coresFor(ctx, b.duration/2)
	if err != nil {
		return nil, err
	}
	b.logf("%d watchers", n)
	w := watch(ctx, t.url, ids)
	defer w.stop()
	if err := pause.For(ctx, watcherWait+time.Second); err != nil { // until all have arrived
		return nil, err
	}
	answered, failed := w.answered.Load(), w.failed.Load()
	cores, err := t.coresFor(ctx, b.duration)
	if err != nil {
		return nil, err
	}
	answered, failed = w.answered.Load()-answered, w.failed.Load()-failed
	if failed > 0 {
		b.logf("requests failed, one with: %v", w.why.Load())
	}
	return Report{
		"watchers": n, "dispatcher_cores": cores["dispatcher"], "postgres_cores": cores["postgres"],
		"idle_cores": idle["dispatcher"], "answers_per_s": Rate(int(answered), b.duration), "errors": failed,
	}, nil
}

// heldBatches makes n batches of a job each and returns their ids. They do not end, since the
// worker is stopped.
func (t *target) heldBatches(ctx context.Context, db databaseURL, worker process, n int) ([]string, error) {
	if _, err := t.runBatch(ctx, pythonJob("task"), 10); err != nil {
		return nil, err
	}
	if err := syscall.Kill(worker.PID, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("hold the worker: %w", err)
	}
	if err := db.Run(ctx, liveBatches(n, 1)); err != nil {
		return nil, fmt.Errorf("make %d batches: %w", n, err)
	}
	found, err := db.Ask(ctx, `SELECT id FROM batches WHERE name = 'groups'`)
	return strings.Fields(found), err
}

// coresFor returns how many cores the parts of the fleet use, over some time.
func (t *target) coresFor(ctx context.Context, d time.Duration) (map[string]float64, error) {
	before, err := t.cpuNow()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := pause.For(ctx, d); err != nil {
		return nil, err
	}
	after, err := t.cpuNow()
	if err != nil {
		return nil, err
	}
	cores := map[string]float64{}
	for part, used := range after {
		cores[part] = Round((used-before[part]).Seconds()/time.Since(began).Seconds(), 3)
	}
	return cores, nil
}

// watching is a group of clients that repeatedly request one batch each.
type watching struct {
	answered, failed atomic.Int64
	why              atomic.Value // a string
	cancel           context.CancelFunc
	all              sync.WaitGroup
	transport        *http.Transport
}

func watch(ctx context.Context, url string, ids []string) *watching {
	w := &watching{transport: &http.Transport{MaxIdleConnsPerHost: len(ids)}}
	ctx, w.cancel = context.WithCancel(ctx)
	for i, id := range ids {
		w.all.Go(func() {
			if pause.For(ctx, watcherWait*time.Duration(i)/time.Duration(len(ids))) != nil {
				return
			}
			for ctx.Err() == nil {
				if err := w.ask(ctx, fmt.Sprintf("%s/v1/batches/%s?wait=%s", url, id, watcherWait)); err == nil {
					w.answered.Add(1)
				} else if ctx.Err() == nil {
					w.failed.Add(1)
					w.why.Store(err.Error())
					pause.For(ctx, time.Second)
				}
			}
		})
	}
	return w
}

func (w *watching) ask(ctx context.Context, url string) error {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token := os.Getenv("ASSAY_TOKEN"); token != "" {
		rq.Header.Set("Authorization", "Bearer "+token)
	}
	rs, err := w.transport.RoundTrip(rq)
	if err != nil {
		return err
	}
	defer rs.Body.Close()
	if _, err := io.Copy(io.Discard, rs.Body); err != nil {
		return err
	}
	if rs.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", rs.Status)
	}
	return nil
}

func (w *watching) stop() {
	w.cancel()
	w.all.Wait()
	w.transport.CloseIdleConnections()
}
