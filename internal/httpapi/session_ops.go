package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// maxSessionBody is the largest body of a request about a session, in bytes.
const maxSessionBody = 16 << 20

// execute runs a snippet or a command, and records what came of it.
func (s *Server) execute(w http.ResponseWriter, r *http.Request) error {
	var req api.ExecuteRequest
	if err := s.readSession(w, r, &req); err != nil {
		return err
	}
	c, err := s.executeCall(r, req)
	if err != nil {
		return err
	}
	wait := slack
	if req.Wall > 0 {
		wait += req.Wall.D()
	} else {
		wait += job.MaxIdle
	}
	reply, end, err := s.callSession(r, c, wait)
	e := reply.Execute
	if e == nil {
		if end == nil {
			return err
		}
		// It was ended under the execute: that is an answer, too.
		e = &job.Execute{ID: c.Execute, Outcome: end.Outcome, Message: "the session has ended: " + end.Message}
	}
	e.SessionID = job.ID(r.PathValue("id"))
	if e.Outcome == job.Succeeded && end != nil {
		e.Alive = false
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode execute: %w", err)
	}
	ctx := context.WithoutCancel(r.Context()) // it has happened, whoever still listens
	if err := s.Store.PutExecute(ctx, store.Executed{Session: e.SessionID, ID: e.ID, Code: c.Code, Result: raw}); err != nil {
		return fmt.Errorf("record execute: %w", err)
	}
	return writeRaw(w, http.StatusOK, raw)
}

func (s *Server) executeCall(r *http.Request, req api.ExecuteRequest) (queue.SessionCall, error) {
	c := queue.SessionCall{Op: queue.SessionExecute, Execute: job.NewID(), Code: req.Code, Variables: req.Variables, Wall: req.Wall}
	id, err := idParam(r)
	if err != nil {
		return c, err
	}
	p, err := s.place(r.Context(), tenantOf(r), id)
	if err != nil {
		return c, err
	}
	switch {
	case (req.Code == "") == (req.Command == ""):
		return c, job.Invalid("code", "give either code or command")
	case req.Wall < 0:
		return c, job.Invalid("wall", "%s is negative", req.Wall)
	case req.Command != "":
		c.Op, c.Code = queue.SessionShell, req.Command
	case p.kind == job.SessionShell:
		c.Op = queue.SessionShell
	}
	if c.Op == queue.SessionShell && len(req.Variables) > 0 {
		return c, job.Invalid("variables", "are for python snippets")
	}
	for name := range req.Variables {
		if !job.PythonName(name) {
			return c, job.Invalid("variables", "%.80q is not a name", name)
		}
	}
	return c, nil
}

// readSession reads the JSON body of a request about a session.
func (s *Server) readSession(w http.ResponseWriter, r *http.Request, into any) error {
	if err := wantJSON(r); err != nil {
		return err
	}
	body, err := readBody(w, r, maxSessionBody)
	if err != nil {
		return err
	}
	raw, value := into.(*json.RawMessage)
	if !value {
		return job.Decode(body, "", into)
	}
	*raw = body
	return job.CheckValue(body, "body")
}

func (s *Server) listExecutes(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	limit, err := intParam(r, "limit", 100, 1, maxPage)
	if err != nil {
		return err
	}
	after := job.ID(r.URL.Query().Get("after"))
	if after != "" {
		if after, err = job.ParseID(string(after)); err != nil {
			return job.Invalid("after", "is not the id of an execute")
		}
	}
	if _, err := s.Store.Session(r.Context(), tenantOf(r), id); err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	var found []store.Executed
	err = s.reads.do(r.Context(), tenantOf(r), func() (err error) {
		found, err = s.Store.Executes(r.Context(), tenantOf(r), id, after, int(limit))
		return err
	})
	if err != nil {
		return fmt.Errorf("list executes: %w", err)
	}
	if found == nil {
		found = []store.Executed{}
	}
	return writeJSON(w, http.StatusOK, api.ExecuteList{Executes: found})
}

// simply makes a call that has nothing to say but that it was done.
func (s *Server) simply(w http.ResponseWriter, r *http.Request, c queue.SessionCall) error {
	if _, _, err := s.callSession(r, c, callTime); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) interruptSession(w http.ResponseWriter, r *http.Request) error {
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionInterrupt})
}

func (s *Server) resetSession(w http.ResponseWriter, r *http.Request) error {
	reply, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionReset}, callTime)
	if err != nil {
		return err
	}
	if reply.Reset == nil { // of a worker that is older
		reply.Reset = &job.SessionReset{Dropped: []string{}, Modules: []string{}, Functions: []string{}, Kept: []string{}}
	}
	return writeJSON(w, http.StatusOK, reply.Reset)
}

func (s *Server) keepSession(w http.ResponseWriter, r *http.Request) error {
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionKeep})
}

func (s *Server) putContext(w http.ResponseWriter, r *http.Request) error {
	return s.putNamed(w, r, "context")
}

func (s *Server) putVariable(w http.ResponseWriter, r *http.Request) error {
	return s.putNamed(w, r, r.PathValue("name"))
}

func (s *Server) putNamed(w http.ResponseWriter, r *http.Request, name string) error {
	if !job.PythonName(name) {
		return job.Invalid("name", "%.80q is not a name", name)
	}
	var value json.RawMessage
	if err := s.readSession(w, r, &value); err != nil {
		return err
	}
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionSet, Name: name, Data: value})
}

func (s *Server) getVariable(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !job.PythonName(name) {
		return job.Invalid("name", "%.80q is not a name", name)
	}
	reply, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionGet, Name: name}, callTime)
	if err != nil {
		return err
	}
	if reply.Value == nil {
		return notFound("the session has no variable %s that can be shown", name)
	}
	if len(reply.Data) > 0 && json.Valid(reply.Data) { // the word of the session
		reply.Value.JSON = reply.Data
	} else if reply.Size > maxSessionBody {
		return fmt.Errorf("%w: variable %s has more than %d bytes of JSON; have the session write it to a file, and read that in ranges or export it",
			job.ErrTooLarge, name, maxSessionBody)
	}
	return writeJSON(w, http.StatusOK, reply.Value)
}

func (s *Server) listVariables(w http.ResponseWriter, r *http.Request) error {
	reply, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionList}, callTime)
	if err != nil {
		return err
	}
	out := api.VariableList{Variables: reply.Variables}
	if out.Variables == nil {
		out.Variables = map[string]job.Variable{}
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) putFunctions(w http.ResponseWriter, r *http.Request) error {
	var req api.FunctionList
	if err := s.readSession(w, r, &req); err != nil {
		return err
	}
	if req.Functions == nil {
		return job.Invalid("functions", "must be a list of names; [] is none")
	}
	if err := job.CheckNames("functions", req.Functions); err != nil {
		return err
	}
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionInject, Names: req.Functions})
}

func (s *Server) answerCall(w http.ResponseWriter, r *http.Request) error {
	var req api.CallAnswer
	if err := s.readSession(w, r, &req); err != nil {
		return err
	}
	if len(req.Value) > 0 && req.Error != "" {
		return job.Invalid("error", "give either a value or an error")
	}
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionAnswer, Call: req.Call, Value: req.Value, Error: req.Error})
}

func (s *Server) putFile(w http.ResponseWriter, r *http.Request) error {
	data, err := readBytes(w, r, maxSessionBody)
	if err != nil {
		return err
	}
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionPut, Path: "/" + r.PathValue("path"), Data: data})
}

// sessionEvents streams calls of host functions, and the session's end, as
// server-sent events. While it is connected the client counts as there.
func (s *Server) sessionEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	p, err := s.place(r.Context(), tenantOf(r), id)
	if err != nil {
		return err
	}
	heard := make(chan []byte, 1024)
	err = s.Sessions.OnTold(r.Context(), queue.SessionTopic(id), func(worker string, payload []byte) {
		if worker != p.worker {
			return // it does not hold the session
		}
		select {
		case heard <- payload:
		case <-r.Context().Done():
		}
	})
	if err != nil {
		return fmt.Errorf("listen to session: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	st := &sessionStream{events: &events{w: w, control: http.NewResponseController(w)}, sent: map[int64]bool{}}
	return st.run(s, r, heard, p)
}

type sessionStream struct {
	*events
	sent map[int64]bool // calls are told twice: as they come, and as what is pending
}

func (st *sessionStream) run(s *Server, r *http.Request, heard <-chan []byte, p place) error {
	period := keepAlive
	if p.lease > 0 {
		period = min(period, p.lease/3)
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		// What was told before we listened, or got lost, is still pending.
		reply, end, err := s.callSession(r, queue.SessionCall{Op: queue.SessionPending}, callTime)
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
		if st.send(": alive\n\n") != nil {
			return nil
		}
		if over, err := st.listen(r, heard, tick.C); over || err != nil {
			return err
		}
	}
}

// listen passes on what is heard until the next tick.
func (st *sessionStream) listen(r *http.Request, heard <-chan []byte, tick <-chan time.Time) (over bool, err error) {
	for {
		select {
		case payload := <-heard:
			var e queue.SessionEvent
			if json.Unmarshal(payload, &e) != nil {
				continue
			}
			if e.Call != nil && st.call(e.Call) != nil {
				return true, nil
			}
			if e.Ended != nil {
				return true, st.ended(e.Ended)
			}
		case <-tick:
			return false, nil
		case <-closing(r.Context()):
			return true, nil
		case <-r.Context().Done():
			return true, nil
		}
	}
}

func (st *sessionStream) call(c *job.HostCall) error {
	if st.sent[c.Call] {
		return nil
	}
	st.sent[c.Call] = true
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return st.send("event: call\ndata: %s\n\n", body)
}

func (st *sessionStream) ended(e *queue.SessionEnd) error {
	body, err := json.Marshal(e)
	if err == nil {
		_ = st.send("event: ended\ndata: %s\n\n", body)
	}
	return err
}
