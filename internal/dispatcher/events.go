package dispatcher

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
)

// topicRecorded carries the ids of jobs and batches whose record changed, so
// that a client may wait at any dispatcher.
const topicRecorded = "recorded"

// events wakes those who wait for a job or a batch.
type events struct {
	bus queue.Bus
	log *slog.Logger

	mu       sync.Mutex
	watchers map[job.ID]map[chan struct{}]struct{}
}

func newEvents(bus queue.Bus, log *slog.Logger) *events {
	return &events{bus: bus, log: log, watchers: map[job.ID]map[chan struct{}]struct{}{}}
}

func (e *events) listen(ctx context.Context) error {
	return e.bus.OnWake(ctx, topicRecorded, func(payload []byte) {
		for id := range strings.SplitSeq(string(payload), "\n") {
			e.notify(job.ID(id))
		}
	})
}

// publish tells every dispatcher; those who wait here hear it at once.
func (e *events) publish(ctx context.Context, ids []job.ID) {
	if len(ids) == 0 {
		return
	}
	var b strings.Builder
	for i, id := range ids {
		e.notify(id)
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(id))
	}
	if err := e.bus.Wake(topicRecorded, []byte(b.String())); err != nil {
		e.log.WarnContext(ctx, "wake-up not sent; waiters look again by themselves", "error", err)
	}
}

func (e *events) notify(id job.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ch := range e.watchers[id] {
		select {
		case ch <- struct{}{}:
		default: // a hint is waiting already
		}
	}
}

func (e *events) watch(id job.ID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers[id] == nil {
		e.watchers[id] = map[chan struct{}]struct{}{}
	}
	e.watchers[id][ch] = struct{}{}
	return ch, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.watchers[id], ch); len(e.watchers[id]) == 0 {
			delete(e.watchers, id)
		}
	}
}
