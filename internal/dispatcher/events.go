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

// topicRecorded carries the ids of jobs and batches whose record changed, so
// that a client may wait at any dispatcher.
const topicRecorded = "recorded"

// events wakes those who wait for a job or a batch.
type events struct {
	bus control.Bus
	log *slog.Logger

	mu       sync.Mutex
	watchers map[job.ID]map[chan struct{}]struct{}
	records  map[job.ID]json.RawMessage // nil: wanted
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
		e.log.WarnContext(ctx, "wake-up not sent; waiters will poll", "error", err)
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

// watchRecord is watch for who wants the record, alone: record returns it where it
// was written here.
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

// recipient returns what to do with the record of a job; nil if nobody here waits
// for it.
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
