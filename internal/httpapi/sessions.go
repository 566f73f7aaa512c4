package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
)

func (s *Server) createSession(w http.ResponseWriter, r *http.Request) error {
	if err := wantJSON(r); err != nil {
		return err
	}
	body, err := readBody(w, r, maxPolicyBody)
	if err != nil {
		return err
	}
	var spec job.SessionSpec
	if err := job.Decode(body, "", &spec); err != nil {
		return err
	}
	v, err := s.sessions.Open(r.Context(), tenantOf(r), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+string(v.ID))
	return writeJSON(w, http.StatusCreated, v)
}

// callSession has a call about the session of the path made.
func (s *Server) callSession(r *http.Request, c queue.SessionCall) (reply queue.SessionReply, end *queue.SessionEnd, err error) {
	if c.Session, err = idParam(r); err != nil {
		return reply, nil, err
	}
	c.Tenant = tenantOf(r)
	return s.sessions.Call(r.Context(), c)
}

func (s *Server) forkSession(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	v, err := s.sessions.Fork(r.Context(), tenantOf(r), id)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+string(v.ID))
	return writeJSON(w, http.StatusCreated, v)
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParam(r, "limit", 100, 1, maxPage)
	if err != nil {
		return err
	}
	var found []job.Session
	err = s.reads.do(r.Context(), tenantOf(r), func() (err error) {
		found, err = s.Store.ListSessions(r.Context(), tenantOf(r), r.URL.Query().Get("state") == "live", int(limit))
		return err
	})
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	if found == nil {
		found = []job.Session{}
	}
	return writeJSON(w, http.StatusOK, api.SessionList{Sessions: found})
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	v, err := s.Store.Session(r.Context(), tenantOf(r), id)
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	return writeJSON(w, http.StatusOK, v)
}

// closeSession ends a session; one that has ended stays as it is.
func (s *Server) closeSession(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionClose}); err != nil && !errors.Is(err, job.ErrConflict) {
		return err
	}
	return s.getSession(w, r)
}
