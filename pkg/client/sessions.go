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

// Session returns the current state of a session.
func (c *Client) Session(ctx context.Context, id job.ID) (*job.Session, error) {
	var out job.Session
	_, err := c.json(ctx, get(sessionPath(id), nil), &out)
	return &out, err
}

// Sessions lists up to a thousand sessions of the caller's tenant, newest first: all, or the live ones.
func (c *Client) Sessions(ctx context.Context, live bool) ([]job.Session, error) {
	return c.TenantSessions(ctx, "", live)
}

// TenantSessions is Sessions for a tenant or for AllTenants. Other tenants than the caller's require an operator; the
// error is job.ErrRefused otherwise.
func (c *Client) TenantSessions(ctx context.Context, tenant string, live bool) ([]job.Session, error) {
	query := url.Values{"limit": {"1000"}}
	if tenant != "" {
		query.Set("tenant", tenant)
	}
	if live {
		query.Set("state", string(job.SessionLive))
	}
	var out api.SessionList
	_, err := c.json(ctx, get("/v1/sessions", query), &out)
	return out.Sessions, err
}

// ForkSession creates an independent copy of a session: its variables, imported modules and files.
func (c *Client) ForkSession(ctx context.Context, id job.ID) (*job.Session, error) {
	var out job.Session
	return &out, c.keyed(ctx, sessionPath(id)+"/fork", nil, &out)
}

// CloseSession ends a session and returns its final state.
func (c *Client) CloseSession(ctx context.Context, id job.ID) (*job.Session, error) {
	var out job.Session
	return &out, c.once(ctx, http.MethodDelete, sessionPath(id), nil, &out)
}

// Execute runs a snippet or a command in a session. It is sent only once. If there is no response,
// Executions shows whether it ran.
func (c *Client) Execute(ctx context.Context, id job.ID, rq api.ExecuteRequest) (*job.Execute, error) {
	var out job.Execute
	return &out, c.once(ctx, http.MethodPost, sessionPath(id)+"/execute", rq, &out)
}

// ExecuteKeyed is Execute under an idempotency key. It runs once despite retries, but waits for the
// database's disk first. job.ErrConflict may also mean that it is unknown whether it ran.
func (c *Client) ExecuteKeyed(ctx context.Context, id job.ID, rq api.ExecuteRequest) (*job.Execute, error) {
	var out job.Execute
	return &out, c.keyed(ctx, sessionPath(id)+"/execute", rq, &out)
}

// Interrupt interrupts the current execution of a session. The session keeps its state.
func (c *Client) Interrupt(ctx context.Context, id job.ID) error {
	return c.once(ctx, http.MethodPost, sessionPath(id)+"/interrupt", nil, nil)
}

// ResetSession resets the namespace and the shell of a session to their initial state. It returns lists of
// the removed and the kept items.
func (c *Client) ResetSession(ctx context.Context, id job.ID) (*job.SessionReset, error) {
	var out job.SessionReset
	return &out, c.once(ctx, http.MethodPost, sessionPath(id)+"/reset", nil, &out)
}

// KeepSession renews the client's lease of a session. Every other call for the session does so,
// too.
func (c *Client) KeepSession(ctx context.Context, id job.ID) error {
	return c.once(ctx, http.MethodPost, sessionPath(id)+"/keepalive", nil, nil)
}

// SetContext sets the variable context of a session to a JSON value.
func (c *Client) SetContext(ctx context.Context, id job.ID, value any) error {
	return c.once(ctx, http.MethodPut, sessionPath(id)+"/context", value, nil)
}

// SetVariable sets a variable of a session to a JSON value.
func (c *Client) SetVariable(ctx context.Context, id job.ID, name string, value any) error {
	return c.once(ctx, http.MethodPut, sessionPath(id)+"/variables/"+name, value, nil)
}

// Variable returns a variable of a session, or job.ErrNotFound.
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

// InjectFunctions adds host functions to a session.
func (c *Client) InjectFunctions(ctx context.Context, id job.ID, names ...string) error {
	return c.once(ctx, http.MethodPut, sessionPath(id)+"/functions", api.FunctionList{Functions: names}, nil)
}

// PutFile writes a file of at most 16 MiB in a session and creates its parent directories. path is
// absolute.
func (c *Client) PutFile(ctx context.Context, id job.ID, path string, data []byte) error {
	body := func() (io.Reader, error) { return bytes.NewReader(data), nil }
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	_, err := c.json(ctx, call{method: http.MethodPut, path: filePath(id, path), header: header, body: body, once: true}, nil)
	return err
}

// File reads a file of a session. It has no size limit. path is absolute.
func (c *Client) File(ctx context.Context, id job.ID, path string) ([]byte, error) {
	return c.file(ctx, get(filePath(id, path), nil))
}

// FileRange reads up to n bytes of a session's file from offset.
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

// ExportArtifacts stores the files of a session that its policy lists (artifacts) between two
// executions, and returns them. They replace the previous export and outlive the session. The end
// of a session exports once more.
func (c *Client) ExportArtifacts(ctx context.Context, id job.ID) (*job.Export, error) {
	var out job.Export
	return &out, c.once(ctx, http.MethodPost, sessionPath(id)+"/artifacts", nil, &out)
}

// ExportedArtifacts returns the latest export of a live or ended session.
func (c *Client) ExportedArtifacts(ctx context.Context, id job.ID) (*job.Export, error) {
	var out job.Export
	_, err := c.json(ctx, get(sessionPath(id)+"/artifacts", nil), &out)
	return &out, err
}

// ExportedArtifact opens an exported file by its path inside the sandbox. The caller closes it.
func (c *Client) ExportedArtifact(ctx context.Context, id job.ID, path string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, get(sessionPath(id)+"/artifacts/"+strings.TrimPrefix(path, "/"), nil))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Executions lists the executions of a session after the given one, oldest first.
func (c *Client) Executions(ctx context.Context, id, after job.ID) (*api.ExecutionList, error) {
	var out api.ExecutionList
	rq := get(sessionPath(id)+"/executions", nil)
	if after != "" {
		rq.query = map[string][]string{"after": {string(after)}}
	}
	_, err := c.json(ctx, rq, &out)
	return &out, err
}

// HostFunction answers one call of a host function. The session raises its error.
type HostFunction func(ctx context.Context, call job.HostCall) (any, error)

// AnswerCalls answers a session's calls of host functions concurrently until the session or ctx
// ends. Meanwhile it renews the client's lease.
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
		// The call stays open; the next connection of the stream repeats it.
		return
	}
}

// keyed sends a POST with a new idempotency key.
func (c *Client) keyed(ctx context.Context, path string, body, out any) error {
	rq, err := post(path, nil, body)
	if err != nil {
		return err
	}
	_, err = c.json(ctx, rq, out)
	return err
}

// once sends a call that must not be repeated.
func (c *Client) once(ctx context.Context, method, path string, body, out any) error {
	rq := call{method: method, path: path, once: true}
	if err := rq.json(body); err != nil {
		return err
	}
	_, err := c.json(ctx, rq, out)
	return err
}

func sessionPath(id job.ID) string { return "/v1/sessions/" + string(id) }
