package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// CreateSession starts a session.
func (c *Client) CreateSession(ctx context.Context, spec job.SessionSpec) (*job.Session, error) {
	var out job.Session
	return &out, c.keyed(ctx, "/v1/sessions", spec, &out)
}

// Session returns a session as it stands.
func (c *Client) Session(ctx context.Context, id job.ID) (*job.Session, error) {
	var out job.Session
	_, err := c.json(ctx, get(sessionPath(id), nil), &out)
	return &out, err
}

// Sessions lists up to a thousand sessions, newest first: all, or those that live.
func (c *Client) Sessions(ctx context.Context, live bool) ([]job.Session, error) {
	query := url.Values{"limit": {"1000"}}
	if live {
		query.Set("state", string(job.SessionLive))
	}
	var out api.SessionList
	_, err := c.json(ctx, get("/v1/sessions", query), &out)
	return out.Sessions, err
}

// ForkSession makes a session that is a copy of another: its variables, what it
// has imported, and its files. From then on neither sees what the other does.
func (c *Client) ForkSession(ctx context.Context, id job.ID) (*job.Session, error) {
	var out job.Session
	return &out, c.keyed(ctx, sessionPath(id)+"/fork", nil, &out)
}

// CloseSession ends a session, and returns it as it ended.
func (c *Client) CloseSession(ctx context.Context, id job.ID) (*job.Session, error) {
	var out job.Session
	return &out, c.once(ctx, http.MethodDelete, sessionPath(id), nil, &out)
}

// Execute runs a snippet or a command in a session. It is sent once: whether an
// execution without an answer happened is in the session's list (see Executions).
func (c *Client) Execute(ctx context.Context, id job.ID, rq api.ExecuteRequest) (*job.Execute, error) {
	var out job.Execute
	return &out, c.once(ctx, http.MethodPost, sessionPath(id)+"/execute", rq, &out)
}

// ExecuteKeyed is Execute under an idempotency key: it runs once, however often it has to be sent, and waits for the
// database's disk before it does. job.ErrConflict also says that it is not known whether it ran.
func (c *Client) ExecuteKeyed(ctx context.Context, id job.ID, rq api.ExecuteRequest) (*job.Execute, error) {
	var out job.Execute
	return &out, c.keyed(ctx, sessionPath(id)+"/execute", rq, &out)
}

// Interrupt interrupts what a session executes; the session keeps its state.
func (c *Client) Interrupt(ctx context.Context, id job.ID) error {
	return c.once(ctx, http.MethodPost, sessionPath(id)+"/interrupt", nil, nil)
}

// ResetSession makes the namespace of a session, and its shell, what they were when it was
// made, and returns what is gone and what is kept.
func (c *Client) ResetSession(ctx context.Context, id job.ID) (*job.SessionReset, error) {
	var out job.SessionReset
	return &out, c.once(ctx, http.MethodPost, sessionPath(id)+"/reset", nil, &out)
}

// KeepSession prolongs the client's lease of a session. Every other call about
// the session does so, too.
func (c *Client) KeepSession(ctx context.Context, id job.ID) error {
	return c.once(ctx, http.MethodPost, sessionPath(id)+"/keepalive", nil, nil)
}

// SetContext sets the variable context of a session to a value, as JSON.
func (c *Client) SetContext(ctx context.Context, id job.ID, value any) error {
	return c.once(ctx, http.MethodPut, sessionPath(id)+"/context", value, nil)
}

// SetVariable sets a variable of a session to a value, as JSON.
func (c *Client) SetVariable(ctx context.Context, id job.ID, name string, value any) error {
	return c.once(ctx, http.MethodPut, sessionPath(id)+"/variables/"+name, value, nil)
}

// Variable returns a variable of a session; job.ErrNotFound if there is none.
func (c *Client) Variable(ctx context.Context, id job.ID, name string) (*job.Value, error) {
	var out job.Value
	_, err := c.json(ctx, get(sessionPath(id)+"/variables/"+name, nil), &out)
	return &out, err
}

// Variables lists the variables of a session, capped.
func (c *Client) Variables(ctx context.Context, id job.ID) (map[string]job.Variable, error) {
	var out api.VariableList
	_, err := c.json(ctx, get(sessionPath(id)+"/variables", nil), &out)
	return out.Variables, err
}

// InjectFunctions gives a session more host functions.
func (c *Client) InjectFunctions(ctx context.Context, id job.ID, names ...string) error {
	return c.once(ctx, http.MethodPut, sessionPath(id)+"/functions", api.FunctionList{Functions: names}, nil)
}

// PutFile writes a file of at most 16 MiB in a session, with the directories
// above it. path is absolute.
func (c *Client) PutFile(ctx context.Context, id job.ID, path string, data []byte) error {
	body := func() (io.Reader, error) { return bytes.NewReader(data), nil }
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	_, err := c.json(ctx, call{method: http.MethodPut, path: filePath(id, path), header: header, body: body, once: true}, nil)
	return err
}

// File reads a file of a session, however large. path is absolute.
func (c *Client) File(ctx context.Context, id job.ID, path string) ([]byte, error) {
	return c.file(ctx, get(filePath(id, path), nil))
}

// FileRange reads n bytes of a file of a session from offset on, or what there is of them.
func (c *Client) FileRange(ctx context.Context, id job.ID, path string, offset, n int64) ([]byte, error) {
	rq := get(filePath(id, path), nil)
	rq.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", offset, offset+n-1)}}
	return c.file(ctx, rq)
}

func (c *Client) file(ctx context.Context, rq call) ([]byte, error) {
	resp, err := c.do(ctx, rq)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func filePath(id job.ID, path string) string {
	return sessionPath(id) + "/files/" + strings.TrimPrefix(path, "/")
}

// ExportArtifacts keeps the files of a session that its policy names (artifacts), as they
// are between two executions, and returns what is kept. They take the place of those of the
// export before, and stay when the session has ended, which exports them once more.
func (c *Client) ExportArtifacts(ctx context.Context, id job.ID) (*job.Export, error) {
	var out job.Export
	return &out, c.once(ctx, http.MethodPost, sessionPath(id)+"/artifacts", nil, &out)
}

// ExportedArtifacts returns what was exported of a session last, live or ended.
func (c *Client) ExportedArtifacts(ctx context.Context, id job.ID) (*job.Export, error) {
	var out job.Export
	_, err := c.json(ctx, get(sessionPath(id)+"/artifacts", nil), &out)
	return &out, err
}

// ExportedArtifact opens one of these files by its path inside the sandbox. The caller
// closes it.
func (c *Client) ExportedArtifact(ctx context.Context, id job.ID, path string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, get(sessionPath(id)+"/artifacts/"+strings.TrimPrefix(path, "/"), nil))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Executions lists what was executed in a session after one, oldest first. It asks by the older name of the route, which
// dispatchers of every version answer.
func (c *Client) Executions(ctx context.Context, id, after job.ID) (*api.ExecutionList, error) {
	l, err := c.Executes(ctx, id, after)
	return &api.ExecutionList{Executions: l.Executes}, err
}

// Executes is Executions by its older name, which stays.
func (c *Client) Executes(ctx context.Context, id, after job.ID) (*api.ExecuteList, error) {
	var out api.ExecuteList
	rq := get(sessionPath(id)+"/executes", nil)
	if after != "" {
		rq.query = map[string][]string{"after": {string(after)}}
	}
	_, err := c.json(ctx, rq, &out)
	return &out, err
}

// HostFunction answers one call of a host function; its error is raised in the
// session.
type HostFunction func(ctx context.Context, call job.HostCall) (any, error)

// AnswerCalls answers a session's calls of host functions, many at once, until
// the session ends or ctx does. While it runs, the client's lease is prolonged.
func (c *Client) AnswerCalls(ctx context.Context, id job.ID, functions map[string]HostFunction) error {
	resp, err := c.do(ctx, get(sessionPath(id)+"/events", nil))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	event := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%w: session %s: %w", job.ErrUnavailable, id, err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if kind, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(kind)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		switch {
		case ok && event == "ended":
			return nil
		case ok && event == "call":
			var call job.HostCall
			if err := json.Unmarshal(data, &call); err != nil {
				return fmt.Errorf("read a call: %w", err)
			}
			go c.answer(ctx, id, call, functions[call.Name])
		}
	}
}

func (c *Client) answer(ctx context.Context, id job.ID, call job.HostCall, f HostFunction) {
	a := api.CallAnswer{Call: call.Call, Error: "the client has no function of this name"}
	if f != nil {
		a.Error = ""
		v, err := f(ctx, call)
		if err == nil {
			a.Value, err = json.Marshal(v)
		}
		if err != nil {
			a.Value, a.Error = nil, strings.ToValidUTF8(err.Error(), "\uFFFD")
		}
	}
	err := c.once(ctx, http.MethodPost, sessionPath(id)+"/answers", a, nil)
	if err != nil && !errors.Is(err, job.ErrNotFound) && ctx.Err() == nil {
		// The call stays open: the stream tells it again when it is opened anew.
		return
	}
}

// keyed makes a POST under a new idempotency key.
func (c *Client) keyed(ctx context.Context, path string, body, out any) error {
	rq, err := post(path, nil, body)
	if err != nil {
		return err
	}
	_, err = c.json(ctx, rq, out)
	return err
}

// once makes a call that must not be said twice.
func (c *Client) once(ctx context.Context, method, path string, body, out any) error {
	rq := call{method: method, path: path, once: true}
	if err := rq.json(body); err != nil {
		return err
	}
	_, err := c.json(ctx, rq, out)
	return err
}

func sessionPath(id job.ID) string { return "/v1/sessions/" + string(id) }
