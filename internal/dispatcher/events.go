package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// topicRecorded carries the ids of jobs and batches with changed records, so that clients can wait at any dispatcher.
const topicRecorded = "recorded"

// events wakes the callers that wait for a job or a batch.
type events struct {
	bus control.Bus
	log *slog.Logger

	mu       sync.Mutex
	watchers map[job.ID]map[chan struct{}]struct{}
	records  map[job.ID]json.RawMessage // the wanted records; nil: not recorded yet
}

func newEvents(bus control.Bus, log *slog.Logger) *events {
	return &events{bus: bus, log: log, watchers: map[job.ID]map[chan struct{}]struct{}{}, records: map[job.ID]json.RawMessage{}}
}

func (e *events) listen(ctx context.Context) error {
	return e.bus.OnWake(ctx, topicRecorded, func(payload []byte) {
		for id := range strings.SplitSeq(string(payload), "\n") {
			e.notify(job.ID(id))
		}
	})
}

// publish notifies the watchers of this dispatcher, then all dispatchers.
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
		e.log.WarnContext(ctx, "wake-up not sent; waiters will poll", "error", err)
	}
}

func (e *events) notify(id job.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ch := range e.watchers[id] {
		select {
		case ch <- struct{}{}:
		default: // already notified
		}
	}
}

// watchRecord implements Dispatcher.WatchRecord.
func (e *events) watchRecord(id job.ID) (changed <-chan struct{}, record func() json.RawMessage, stop func()) {
	changed, unwatch := e.watch(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records[id] = nil
	record = func() json.RawMessage {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.records[id]
	}
	return changed, record, func() {
		unwatch()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.records, id)
	}
}

// recipient returns a function that takes the record of a job, or nil if no caller here waits for it.
func (e *events) recipient(id job.ID) func(json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, wanted := e.records[id]; !wanted {
		return nil
	}
	return func(raw json.RawMessage) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, wanted := e.records[id]; wanted {
			e.records[id] = raw
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
