package web

import (
	"fmt"
	"net/http"
	"time"
)

// KeepAlive is the interval of keep-alive comments in an idle stream, so that proxies do not close it.
const KeepAlive = 15 * time.Second

// Events writes one stream of server-sent events.
type Events struct {
	Spoke time.Time // time of the last write

	w       http.ResponseWriter
	control *http.ResponseController
}

// NewEvents begins a stream.
func NewEvents(w http.ResponseWriter) *Events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	w.WriteHeader(http.StatusOK)
	return &Events{w: w, control: http.NewResponseController(w)}
}

// Send writes one event or comment. It fails if the client is gone.
func (e *Events) Send(format string, args ...any) error {
	e.Spoke = time.Now()
	_ = e.control.SetWriteDeadline(e.Spoke.Add(StallLimit))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

// Alive writes a keep-alive comment.
func (e *Events) Alive() error { return e.Send(": alive\n\n") }
