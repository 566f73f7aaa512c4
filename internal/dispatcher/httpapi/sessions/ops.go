package sessions

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxSessionBody is the largest body of a request about a session, in bytes.
const maxSessionBody = 16 << 20

// execute runs a snippet or a command and records the result.
func (h *Handlers) execute(w http.ResponseWriter, r *http.Request) error {
	var req api.ExecuteRequest
	body, err := h.readRaw(w, r)
	if err != nil {
		return err
	}
	if err := job.Decode(body, "", &req); err != nil {
		return err
	}
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	key, err := web.Idempotency(r, body)
	if err != nil {
		return err
	}
	raw, again, err := h.Sessions.ExecuteOnce(r.Context(), web.Tenant(r), key, id, req)
	if err != nil {
		return err
	}
	if again {
		w.Header().Set(api.HeaderReplayed, "true")
	}
	return web.WriteRaw(w, http.StatusOK, raw)
}

// readRaw reads a JSON body without decoding it.
func (h *Handlers) readRaw(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := web.WantJSON(r); err != nil {
		return nil, err
	}
	return web.ReadBody(w, r, maxSessionBody)
}

// read reads and decodes a JSON body. Into a json.RawMessage it copies the body after validating it as a value.
func (h *Handlers) read(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := h.readRaw(w, r)
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

func (h *Handlers) listExecutions(w http.ResponseWriter, r *http.Request) error {
	found, err := h.executions(r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, api.ExecutionList{Executions: found})
}

// executions reads the page that the request selects.
func (h *Handlers) executions(r *http.Request) ([]store.Executed, error) {
	id, err := web.ID(r)
	if err != nil {
		return nil, err
	}
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return nil, err
	}
	after := job.ID(r.URL.Query().Get("after"))
	if after != "" {
		if after, err = job.ParseID(string(after)); err != nil {
			return nil, job.Invalid("after", "is not the id of an execution")
		}
	}
	if _, err := h.Store.Session(r.Context(), web.Tenant(r), id); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	found := []store.Executed{}
	err = h.Reads.Do(r.Context(), web.Tenant(r), func() error {
		page, err := h.Store.Executions(r.Context(), web.Tenant(r), id, after, int(limit))
		found = append(found, page...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	return found, nil
}

// simply makes a call and responds without content.
func (h *Handlers) simply(w http.ResponseWriter, r *http.Request, c control.SessionCall) error {
	if _, _, err := h.call(r, c); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handlers) interrupt(w http.ResponseWriter, r *http.Request) error {
	return h.simply(w, r, control.SessionCall{Op: control.SessionInterrupt})
}

func (h *Handlers) reset(w http.ResponseWriter, r *http.Request) error {
	reply, _, err := h.call(r, control.SessionCall{Op: control.SessionReset})
	if err != nil {
		return err
	}
	if reply.Reset == nil { // from an older worker
		reply.Reset = &job.SessionReset{Dropped: []string{}, Modules: []string{}, Functions: []string{}, Kept: []string{}}
	}
	return web.WriteJSON(w, http.StatusOK, reply.Reset)
}

func (h *Handlers) keep(w http.ResponseWriter, r *http.Request) error {
	return h.simply(w, r, control.SessionCall{Op: control.SessionKeep})
}

func (h *Handlers) putContext(w http.ResponseWriter, r *http.Request) error {
	return h.putNamed(w, r, "context")
}

func (h *Handlers) putVariable(w http.ResponseWriter, r *http.Request) error {
	return h.putNamed(w, r, r.PathValue("name"))
}

func (h *Handlers) putNamed(w http.ResponseWriter, r *http.Request, name string) error {
	if !job.PythonName(name) {
		return job.Invalid("name", "%.80q is not a name", name)
	}
	var value json.RawMessage
	if err := h.read(w, r, &value); err != nil {
		return err
	}
	tagged, err := boolean(r, "tagged")
	if err != nil {
		return err
	}
	return h.simply(w, r, control.SessionCall{Op: control.SessionSet, Name: name, Data: value, Tagged: tagged})
}

// boolean reads a query parameter that is true or false; the default is false.
func boolean(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text != "" && text != "true" && text != "false" {
		return false, job.Invalid(name, "must be true or false")
	}
	return text == "true", nil
}

func (h *Handlers) getVariable(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !job.PythonName(name) {
		return job.Invalid("name", "%.80q is not a name", name)
	}
	reply, _, err := h.call(r, control.SessionCall{Op: control.SessionGet, Name: name})
	if err != nil {
		return err
	}
	if reply.Value == nil {
		return web.NotFound("the session has no variable %s with a representation", name)
	}
	if len(reply.Data) > 0 && json.Valid(reply.Data) { // the session may send invalid JSON
		if reply.Tagged {
			reply.Value.Tagged = reply.Data
		} else {
			reply.Value.JSON = reply.Data
		}
	} else if reply.Size > maxSessionBody {
		return fmt.Errorf("%w: variable %s has more than %d bytes of JSON; have the session write it to a file, and read that in ranges or export it",
			job.ErrTooLarge, name, maxSessionBody)
	}
	return web.WriteJSON(w, http.StatusOK, reply.Value)
}

func (h *Handlers) listVariables(w http.ResponseWriter, r *http.Request) error {
	reply, _, err := h.call(r, control.SessionCall{Op: control.SessionList})
	if err != nil {
		return err
	}
	out := api.VariableList{Variables: reply.Variables}
	if out.Variables == nil {
		out.Variables = map[string]job.Variable{}
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func (h *Handlers) putFunctions(w http.ResponseWriter, r *http.Request) error {
	var req api.FunctionList
	if err := h.read(w, r, &req); err != nil {
		return err
	}
	if req.Functions == nil {
		return job.Invalid("functions", "must be a list of names; [] is none")
	}
	if err := job.CheckNames("functions", req.Functions); err != nil {
		return err
	}
	return h.simply(w, r, control.SessionCall{Op: control.SessionInject, Names: req.Functions})
}

func (h *Handlers) answerCall(w http.ResponseWriter, r *http.Request) error {
	var req api.CallAnswer
	if err := h.read(w, r, &req); err != nil {
		return err
	}
	if len(req.Value) > 0 && req.Error != "" {
		return job.Invalid("error", "give either a value or an error")
	}
	return h.simply(w, r, control.SessionCall{Op: control.SessionAnswer, Call: req.Call, Value: req.Value, Error: req.Error})
}

func (h *Handlers) putFile(w http.ResponseWriter, r *http.Request) error {
	data, err := web.ReadBytes(w, r, maxSessionBody)
	if err != nil {
		return err
	}
	return h.simply(w, r, control.SessionCall{Op: control.SessionPut, Path: "/" + r.PathValue("path"), Data: data})
}
