package sessions

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// events streams calls of host functions, and the session's end, as server-sent events. A connected stream renews the
// session's lease.
func (h *Handlers) events(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	heard, lease, err := h.Sessions.Listen(r.Context(), web.Tenant(r), id)
	if err != nil {
		return err
	}
	st := &stream{Events: web.NewEvents(w), sent: map[int64]bool{}}
	pending := func() (control.SessionReply, *control.SessionEnd, error) {
		return h.call(r, control.SessionCall{Op: control.SessionPending})
	}
	return st.run(r, pending, heard, lease)
}

// stream sends events of a session to one client.
type stream struct {
	*web.Events
	sent map[int64]bool // calls arrive twice: as events and as pending calls
}

func (st *stream) run(r *http.Request, pending func() (control.SessionReply, *control.SessionEnd, error), heard <-chan control.SessionEvent, lease time.Duration) error {
	period := web.KeepAlive
	if lease > 0 {
		period = min(period, lease/3)
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		// Calls that were missed or made earlier are still pending.
		reply, end, err := pending()
		for _, c := range reply.Pending {
			if st.call(&c) != nil {
				return nil
			}
		}
		if end != nil {
			return st.ended(end)
		}
		if errors.Is(err, job.ErrConflict) || r.Context().Err() != nil {
			return nil
		}
		if st.Alive() != nil {
			return nil
		}
		if over, err := st.listen(r, heard, tick.C); over || err != nil {
			return err
		}
	}
}

// listen passes on events until the next tick.
func (st *stream) listen(r *http.Request, heard <-chan control.SessionEvent, tick <-chan time.Time) (over bool, err error) {
	for {
		select {
		case e := <-heard:
			if e.Call != nil && st.call(e.Call) != nil {
				return true, nil
			}
			if e.Ended != nil {
				return true, st.ended(e.Ended)
			}
		case <-tick:
			return false, nil
		case <-web.Closing(r.Context()):
			return true, nil
		case <-r.Context().Done():
			return true, nil
		}
	}
}

func (st *stream) call(c *job.HostCall) error {
	if st.sent[c.Call] {
		return nil
	}
	st.sent[c.Call] = true
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return st.Send("event: call\ndata: %s\n\n", body)
}

func (st *stream) ended(e *control.SessionEnd) error {
	body, err := json.Marshal(e)
	if err == nil {
		_ = st.Send("event: ended\ndata: %s\n\n", body)
	}
	return err
}
