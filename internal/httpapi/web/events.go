package web

import (
	"fmt"
	"net/http"
	"time"
)

// KeepAlive is how often a silent stream says that it is alive, so that
// proxies do not cut it.
const KeepAlive = 15 * time.Second

// Events writes one stream of server-sent events.
type Events struct {
	Spoke time.Time // when something was last sent

	w       http.ResponseWriter
	control *http.ResponseController
}

// NewEvents begins a stream.
func NewEvents(w http.ResponseWriter) *Events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	return &Events{w: w, control: http.NewResponseController(w)}
}

// Send sends what may be one event, or a comment. It fails if the client is gone.
func (e *Events) Send(format string, args ...any) error {
	e.Spoke = time.Now()
	_ = e.control.SetWriteDeadline(e.Spoke.Add(StallLimit))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

// Alive says that the stream is there.
func (e *Events) Alive() error { return e.Send(": alive\n\n") }
