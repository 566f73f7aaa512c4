package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// A worker that was silent for so long does not widen the window any more.
const workerSilence = 20 * time.Second

// registry knows the workers of the fleet: those whose heartbeats arrive here,
// and, through the store, those whose heartbeats reach other dispatchers.
type registry struct {
	store store.Registry
	every time.Duration
	log   *slog.Logger

	mu    sync.Mutex
	dirty map[string]queue.WorkerInfo // reported since the last flush
	known map[string]int              // worker → slots it was counted with
	slots map[string]int              // pool → slots
}

func newRegistry(cfg Config, s store.Registry) *registry {
	return &registry{store: s, every: cfg.RegistryEvery, log: cfg.Log,
		dirty: map[string]queue.WorkerInfo{}, known: map[string]int{}, slots: map[string]int{}}
}

// seen notes a heartbeat. It reports whether the worker is new or has changed
// its size, which somebody should know at once.
func (r *registry) seen(w queue.WorkerInfo) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slots, known := r.known[w.ID]
	r.dirty[w.ID] = w
	r.known[w.ID] = size(w.Slots, w.Draining)
	return !known || slots != r.known[w.ID]
}

// pools returns the slots of each pool that has a worker.
func (r *registry) pools() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.slots)
}

func (r *registry) run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := r.flush(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "registry not refreshed", "error", err)
		}
	}
}

// flush writes down who reported here and counts the whole fleet. After an error
// the last count stands.
func (r *registry) flush(ctx context.Context) error {
	r.mu.Lock()
	dirty := r.dirty
	r.dirty = map[string]queue.WorkerInfo{}
	r.mu.Unlock()
	if len(dirty) > 0 {
		ws := make([]store.Worker, 0, len(dirty))
		for _, w := range dirty {
			ws = append(ws, describe(w))
		}
		if err := r.store.PutWorkers(ctx, ws); err != nil {
			return err
		}
	}
	fleet, err := r.store.Workers(ctx, workerSilence)
	if err != nil {
		return err
	}
	slots, known := map[string]int{}, map[string]int{}
	for _, w := range fleet {
		n := size(w.Slots, w.Draining)
		known[w.ID] = n
		slots[w.Pool] += n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots, r.known = slots, known
	return nil
}

// size is what a worker adds to the window.
func size(slots int, draining bool) int {
	if draining {
		return 0
	}
	return slots
}

func describe(w queue.WorkerInfo) store.Worker {
	host, err := json.Marshal(w.Host)
	if err != nil {
		host = nil // Host is plain data; there is nothing in it that could fail
	}
	return store.Worker{ID: w.ID, Pool: w.Pool, Version: w.Version, Slots: w.Slots, Busy: w.Busy,
		Draining: w.Draining, StartedAt: w.StartedAt, Host: host}
}
