package httpapi

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	actionsPage  = 500
	actionsEvery = time.Second // polling period of a stream
)

// whoOf returns the sender of r.
func whoOf(r *http.Request) admin.Actor {
	who := web.Identity(r)
	return admin.Actor{Name: who.Name, Token: who.Mark, Remote: remoteOf(r)}
}

// remoteOf returns the remote address of r and its X-Forwarded-For header. The header is only as trustworthy as its
// sender.
func remoteOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if said := strings.Join(r.Header.Values("X-Forwarded-For"), ", "); said != "" {
		if len(said) > maxForwarded {
			said = "…" + strings.ToValidUTF8(said[len(said)-maxForwarded:], "")
		}
		host += " (X-Forwarded-For: " + said + ")"
	}
	return host
}

// maxForwarded is the most bytes kept of X-Forwarded-For: its end, which the nearest proxy added.
const maxForwarded = 200

// noted records an action on a tenant's object after the fact. A failure to record does not undo the action.
func (s *Server) noted(r *http.Request, action, subject string, detail any) {
	raw, err := json.Marshal(detail)
	if err == nil {
		err = s.Admin.Noted(r.Context(), whoOf(r), store.Action{Action: action, Subject: subject, Tenant: web.Tenant(r), Detail: raw})
	}
	if err != nil {
		s.Log.WarnContext(r.Context(), "action not recorded in the audit log", "action", action, "subject", subject, "error", err)
	}
}

// own performs do on an object of the tenant and records it as an action.
func (s *Server) own(r *http.Request, action, subject string, do func(*store.Action) error) error {
	_, err := s.Admin.Do(r.Context(), whoOf(r), store.Action{Action: action, Subject: subject, Tenant: web.Tenant(r)}, do)
	return err
}

// actionQuery reads the filters of a request for actions.
func actionQuery(r *http.Request) (q store.ActionQuery, err error) {
	v := r.URL.Query()
	q = store.ActionQuery{Actor: v.Get("actor"), Action: v.Get("action"), Subject: v.Get("subject"), Tenant: v.Get("tenant")}
	for _, t := range []struct {
		name string
		into *time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		text := v.Get(t.name)
		if text == "" {
			continue
		}
		if *t.into, err = time.Parse(time.RFC3339, text); err != nil {
			return q, job.Invalid(t.name, "%.40q must be a time such as 2026-01-31T12:00:00Z", text)
		}
	}
	return q, nil
}

func (s *Server) listActions(w http.ResponseWriter, r *http.Request) error {
	q, err := actionQuery(r)
	if err != nil {
		return err
	}
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return err
	}
	q.Limit = int(limit)
	if before := r.URL.Query().Get("before"); before != "" {
		if q.Before, err = job.ParseID(before); err != nil {
			return job.Invalid("before", "%.80q is not the id of an action", before)
		}
	}
	found, err := s.Admin.Actions(r.Context(), q)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, found)
}

// actionEvents streams actions in the order of their numbers as they are recorded: those after Last-Event-ID, or new
// ones without it.
func (s *Server) actionEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := actionQuery(r)
	if err != nil {
		return err
	}
	seq, err := s.lastSeen(r)
	if err != nil {
		return err
	}
	q.Limit = actionsPage
	events := web.NewEvents(w)
	for {
		found, err := s.Store.ActionsAfter(r.Context(), seq, q)
		if err != nil {
			return fmt.Errorf("list actions: %w", err)
		}
		for _, a := range found {
			if seq = a.Seq; sendAction(events, a) != nil {
				return nil // the client is gone
			}
		}
		if time.Since(events.Spoke) >= web.KeepAlive && events.Alive() != nil {
			return nil
		}
		if len(found) < q.Limit && over(r) {
			return nil
		}
	}
}

// lastSeen returns the number of the last action that the client has seen.
func (s *Server) lastSeen(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return s.Store.ActionsSeq(r.Context())
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return 0, job.Invalid("Last-Event-ID", "%.40q must be the seq of an action", text)
	}
	return seq, nil
}

func sendAction(e *web.Events, a store.Action) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return e.Send("id: %d\nevent: action\ndata: %s\n\n", a.Seq, raw)
}

// over waits for the next poll and reports whether the stream should end.
func over(r *http.Request) bool {
	select {
	case <-web.Closing(r.Context()): // the client reconnects to another dispatcher
		return true
	default:
	}
	return pause.For(r.Context(), actionsEvery) != nil
}
