package httpapi

import (
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
	id, err := idParam(r)
	if err != nil {
		return err
	}
	raw, err := s.sessions.Execute(r.Context(), tenantOf(r), id, req)
	if err != nil {
		return err
	}
	return writeRaw(w, http.StatusOK, raw)
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
			return job.Invalid("after", "is not the id of an execution")
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
	if _, _, err := s.callSession(r, c); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) interruptSession(w http.ResponseWriter, r *http.Request) error {
	return s.simply(w, r, queue.SessionCall{Op: queue.SessionInterrupt})
}

func (s *Server) resetSession(w http.ResponseWriter, r *http.Request) error {
	reply, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionReset})
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
	reply, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionGet, Name: name})
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
	reply, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionList})
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
	heard, lease, err := s.sessions.Listen(r.Context(), tenantOf(r), id)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	st := &sessionStream{events: &events{w: w, control: http.NewResponseController(w)}, sent: map[int64]bool{}}
	return st.run(s, r, heard, lease)
}

type sessionStream struct {
	*events
	sent map[int64]bool // calls are told twice: as they come, and as what is pending
}

func (st *sessionStream) run(s *Server, r *http.Request, heard <-chan queue.SessionEvent, lease time.Duration) error {
	period := keepAlive
	if lease > 0 {
		period = min(period, lease/3)
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		// What was told before we listened, or got lost, is still pending.
		reply, end, err := s.callSession(r, queue.SessionCall{Op: queue.SessionPending})
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
func (st *sessionStream) listen(r *http.Request, heard <-chan queue.SessionEvent, tick <-chan time.Time) (over bool, err error) {
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
