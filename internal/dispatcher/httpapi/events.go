package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// eventPeriod is the shortest time between two events, enough for a human viewer.
	eventPeriod = 250 * time.Millisecond
)

// batchEvents streams a batch's progress as server-sent events: "batch" with the batch object at each change, and
// "done" with the last one.
func (s *Server) batchEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	s.leases.KeepAlive(r.Context(), web.Tenant(r), id)
	changed, stop := s.Watcher.WatchBatch(id)
	defer stop()
	b, err := s.watching.Batch(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read batch %s: %w", id, err)
	}
	e := &events{Events: web.NewEvents(w), whole: time.Now()}
	for {
		if err := e.batch(b); err != nil || b.Done() {
			return nil // the client is gone or has everything
		}
		hinted, over := e.pause(r, changed)
		if over {
			return nil
		}
		if b, err = s.nextEvent(r, e, b, hinted); err != nil {
			return fmt.Errorf("read batch %s: %w", id, err)
		}
	}
}

// nextEvent reads a batch again if it may have changed. Without a hint, it compares the number of recorded results, and
// reads the whole batch once per web.KeepAlive for other changes.
func (s *Server) nextEvent(r *http.Request, e *events, b *job.Batch, hinted bool) (*job.Batch, error) {
	if !hinted && time.Since(e.whole) < web.KeepAlive {
		far, err := s.watching.Far(r.Context(), b.Tenant, b.ID)
		if err != nil || int64(far.Recorded) == b.Counts[job.Finished]+b.Counts[job.Canceled] && far.Done == b.Done() {
			return b, err
		}
	}
	e.whole = time.Now()
	return s.watching.Batch(r.Context(), b.Tenant, b.ID)
}

// events writes one event stream.
type events struct {
	*web.Events
	last  []byte
	whole time.Time // time of the last full read of the batch
}

// batch sends b if it differs from the last one sent.
func (e *events) batch(b *job.Batch) error {
	body, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode batch: %w", err)
	}
	kind := "batch"
	if b.Done() {
		kind = "done"
	}
	switch {
	case kind == "done", !bytes.Equal(body, e.last):
		e.last = body
		return e.Send("event: %s\ndata: %s\n\n", kind, body)
	case time.Since(e.Spoke) >= web.KeepAlive:
		return e.Alive()
	}
	return nil
}

// pause waits for a change, at least eventPeriod and at most web.Recheck. It reports whether a hint came, and whether
// the stream should end.
func (e *events) pause(r *http.Request, changed <-chan struct{}) (hinted, end bool) {
	over := web.Closing(r.Context())
	for i, wait := range []time.Duration{eventPeriod, web.Recheck} {
		hint := changed
		if i == 0 {
			hint = nil
		}
		select {
		case <-hint:
			return true, false
		case <-time.After(wait):
		case <-over: // the client reconnects to another dispatcher
			return false, true
		case <-r.Context().Done():
			return false, true
		}
	}
	return false, false
}
