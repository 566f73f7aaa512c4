package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

const (
	// eventPeriod is the shortest time between two events: people watch these.
	eventPeriod = 250 * time.Millisecond
	// keepAlive is how often a silent stream says that it is alive, so that
	// proxies do not cut it.
	keepAlive = 15 * time.Second
)

// batchEvents streams a batch's progress as server-sent events: "batch" with
// the batch object whenever it changed, and "done" with the last one.
func (s *Server) batchEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	s.hear(r.Context(), tenantOf(r), id)
	changed, stop := s.Dispatcher.WatchBatch(id)
	defer stop()
	b, err := s.watching.batch(r.Context(), tenantOf(r), id)
	if err != nil {
		return fmt.Errorf("read batch %s: %w", id, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	e := &events{w: w, control: http.NewResponseController(w), whole: time.Now()}
	for {
		if err := e.batch(b); err != nil || b.Done() {
			return nil // the client is gone, or has all there is
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

// nextEvent reads a batch again if it may have changed. Without a hint it has, mostly, if
// something was recorded; what else there is to see is looked for now and then.
func (s *Server) nextEvent(r *http.Request, e *events, b *job.Batch, hinted bool) (*job.Batch, error) {
	if !hinted && time.Since(e.whole) < keepAlive {
		far, err := s.watching.far(r.Context(), b.Tenant, b.ID)
		if err != nil || int64(far.Recorded) == b.Counts[job.Finished]+b.Counts[job.Canceled] && far.Done == b.Done() {
			return b, err
		}
	}
	e.whole = time.Now()
	return s.watching.batch(r.Context(), b.Tenant, b.ID)
}

// events writes one stream.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte
	spoke   time.Time
	whole   time.Time // when the batch was last read, all of it
}

// batch sends b if it differs from what was sent last.
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
		return e.send("event: %s\ndata: %s\n\n", kind, body)
	case time.Since(e.spoke) >= keepAlive:
		return e.send(": alive\n\n")
	}
	return nil
}

func (e *events) send(format string, args ...any) error {
	e.spoke = time.Now()
	_ = e.control.SetWriteDeadline(e.spoke.Add(stallLimit))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

// pause waits for a change, at least eventPeriod and at most recheck. It
// reports whether it was hinted at, and whether the stream is to end.
func (e *events) pause(r *http.Request, changed <-chan struct{}) (hinted, end bool) {
	over := closing(r.Context())
	for i, wait := range []time.Duration{eventPeriod, recheck} {
		hint := changed
		if i == 0 {
			hint = nil
		}
		select {
		case <-hint:
			return true, false
		case <-time.After(wait):
		case <-over: // the client connects again, elsewhere
			return false, true
		case <-r.Context().Done():
			return false, true
		}
	}
	return false, false
}
