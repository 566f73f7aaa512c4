package dropin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// notebookTime is the default time limit of all cells.
	notebookTime = 45 * time.Second
	// notebookSlack is additional time for a request. SandboxFusion allows ten seconds for its own process.
	notebookSlack = 10 * time.Second
	// closeTime limits closing a session after its cells.
	closeTime = 30 * time.Second
	// maxPiece is the most bytes of a file in one call.
	maxPiece = 8 << 20
)

// notebookRequest is a RunJupyterRequest.
type notebookRequest struct {
	Cells        []string                   `json:"cells"`
	CellTimeout  float64                    `json:"cell_timeout"` // seconds; 0: only the limit of all cells
	TotalTimeout *float64                   `json:"total_timeout"`
	Kernel       string                     `json:"kernel"`
	Files        map[string]json.RawMessage `json:"files"` // base64 or null, by path
	FetchFiles   []string                   `json:"fetch_files"`
}

// notebookAnswer is a RunJupyterResponse.
type notebookAnswer struct {
	Status      fusionStatus      `json:"status"`
	Message     string            `json:"message"`
	Driver      *fusionRun        `json:"driver"`
	Cells       []cell            `json:"cells"`
	ExecutorPod *string           `json:"executor_pod_name"`
	Files       map[string]string `json:"files"`
	Assay       *notebookExtra    `json:"assay"`
}

// notebookExtra extends SandboxFusion's response.
type notebookExtra struct {
	Session  job.ID        `json:"session"`
	Outcomes []job.Outcome `json:"outcomes"` // of each executed cell
}

// cell is the result of one cell.
type cell struct {
	Stdout  string              `json:"stdout"`
	Stderr  string              `json:"stderr"`
	Display []map[string]string `json:"display"` // by media type
	Error   []cellError         `json:"error"`
}

type cellError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// notebook is a session that executes cells.
type notebook struct {
	*Handlers
	ctx     context.Context
	tenant  string
	id      job.ID
	worker  string
	cellCap time.Duration // limit of one cell; 0: none
	until   time.Time     // end of all cells
}

func (h *Handlers) runJupyter(w http.ResponseWriter, r *http.Request) error {
	var req notebookRequest
	if err := body(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	files, paths, total, err := req.check()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(r.Context(), web.Arrived(r).Add(total+notebookSlack))
	defer cancel()
	n, err := h.openNotebook(ctx, web.Tenant(r), total)
	if err != nil {
		return err
	}
	defer n.close()
	n.cellCap = time.Duration(req.CellTimeout * float64(time.Second))
	out, err := n.run(req.Cells, files)
	if err != nil {
		return err
	}
	if out.Status == fusionSuccess {
		if out.Files, err = n.fetch(paths); err != nil {
			return err
		}
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// check validates a request. It returns its files, the paths of files to return, and the time limit of all cells.
func (q *notebookRequest) check() (files map[string]job.File, paths map[string]string, total time.Duration, err error) {
	if q.Cells == nil {
		return nil, nil, 0, job.Invalid("cells", "is missing")
	}
	switch {
	case q.Kernel != "" && q.Kernel != "python3":
		return nil, nil, 0, job.Invalid("kernel", "there is no %.80q; there is python3", q.Kernel)
	case !(q.CellTimeout >= 0 && q.CellTimeout <= job.MaxWall.D().Seconds()):
		return nil, nil, 0, job.Invalid("cell_timeout", "%v must be from 0, which is none, to %v", q.CellTimeout, job.MaxWall.D().Seconds())
	}
	if total, err = span("total_timeout", q.TotalTimeout, time.Second, notebookTime); err != nil {
		return nil, nil, 0, err
	}
	if files, err = inputs("files", q.Files); err != nil {
		return nil, nil, 0, err
	}
	paths, err = new(program).fetched(q.FetchFiles)
	return files, paths, total, err
}

// openNotebook opens a session. It retries until there is room.
func (h *Handlers) openNotebook(ctx context.Context, tenant string, total time.Duration) (*notebook, error) {
	raw, err := h.policy(ctx, tenant, limits{wall: total})
	if err != nil {
		return nil, err
	}
	idle := job.Duration(min(total+notebookSlack+closeTime, job.MaxIdle))
	spec := job.SessionSpec{Name: SandboxFusion, Kind: job.SessionPython, Policy: raw, IdleTimeout: idle}
	for {
		v, err := h.Sessions.Open(ctx, tenant, spec)
		if err == nil {
			return &notebook{Handlers: h, ctx: ctx, tenant: tenant, id: v.ID, worker: v.Worker, until: time.Now().Add(total)}, nil
		}
		if !isTemporary(err) || ctx.Err() != nil {
			return nil, late(ctx, err)
		}
		pause(ctx, retryPause)
	}
}

// late returns errLate if the request's time has passed or the session is lost.
func late(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, job.ErrConflict) || errors.Is(err, job.ErrLost) {
		return fmt.Errorf("%w: %v", errLate, err)
	}
	return err
}

// close ends the session, even if the client is gone.
func (n *notebook) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), closeTime)
	defer cancel()
	_, _, _ = n.Sessions.Call(ctx, control.SessionCall{Op: control.SessionClose, Session: n.id, Tenant: n.tenant}) // or the idle timeout ends it
}

func (n *notebook) call(c control.SessionCall) (control.SessionReply, error) {
	c.Session, c.Tenant = n.id, n.tenant
	reply, _, err := n.Sessions.Call(n.ctx, c)
	if err != nil {
		err = late(n.ctx, err)
	}
	return reply, err
}

// run executes the cells in order. It continues after a cell that raises an exception. It stops after a cell that
// exceeds its time limit or ends the session.
func (n *notebook) run(cells []string, files map[string]job.File) (*notebookAnswer, error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		content, err := base64.StdEncoding.DecodeString(*f.Base64)
		if err != nil {
			return nil, err
		}
		if _, err := n.call(control.SessionCall{Op: control.SessionPut, Path: path.Join(workdir, name), Data: content}); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	out := &notebookAnswer{
		Status: fusionSuccess, Driver: &fusionRun{Status: fusionFinished, ReturnCode: new(int)}, Cells: []cell{}, Files: map[string]string{},
		ExecutorPod: &n.worker, Assay: &notebookExtra{Session: n.id, Outcomes: []job.Outcome{}},
	}
	for i, code := range cells {
		e, err := n.cell(fmt.Sprintf("cells[%d]", i), code)
		if err != nil {
			return nil, err
		}
		out.Cells = append(out.Cells, cellOf(e))
		out.Assay.Outcomes = append(out.Assay.Outcomes, e.Outcome)
		if out.end(e) {
			break
		}
	}
	out.Driver.ExecutionTime = time.Since(begun).Seconds()
	return out, nil
}

// end reports whether the notebook stops after e, and records the reason in a.
func (a *notebookAnswer) end(e *job.Execute) bool {
	switch {
	case e.Outcome == job.TimedOut:
		a.Driver.Status, a.Driver.ReturnCode = fusionTimeout, nil
	case !e.Alive:
		code, signal := (&programResult{Result: job.Result{Outcome: e.Outcome, ExitCode: e.ExitCode}}).exit()
		if signal != "" {
			code = -signals[signal]
		}
		a.Driver.ReturnCode = &code
	default:
		return false
	}
	a.Status, a.Message = fusionFailed, e.Message
	return true
}

// cell executes one cell. It returns errLate if the session is lost.
func (n *notebook) cell(field, code string) (*job.Execute, error) {
	if err := checkSource(field, code); err != nil {
		return &job.Execute{Outcome: job.Exception, Alive: true, Exception: &job.ExceptionInfo{Type: "SyntaxError", Message: err.Error()}}, nil
	}
	if strings.TrimSpace(code) == "" {
		return &job.Execute{Outcome: job.Succeeded, Alive: true}, nil
	}
	wall := max(time.Until(n.until), time.Millisecond)
	if n.cellCap > 0 {
		wall = min(wall, n.cellCap)
	}
	raw, err := n.Sessions.Execute(n.ctx, n.tenant, n.id, api.ExecuteRequest{Code: code, Wall: job.Duration(wall)})
	if err != nil {
		return nil, late(n.ctx, err)
	}
	e := &job.Execute{}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, fmt.Errorf("decode an execution: %w", err)
	}
	if !e.Outcome.OfProgram() {
		return nil, fmt.Errorf("%w: session %s: %s: %s", errLate, n.id, e.Outcome, e.Message)
	}
	return e, nil
}

// cellOf returns the result of a cell in the format of notebooks.
func cellOf(e *job.Execute) cell {
	out := cell{Stdout: e.Stdout.Text, Stderr: e.Stderr.Text, Display: []map[string]string{}, Error: []cellError{}}
	for i := range e.Display {
		out.Display = append(out.Display, shown(&e.Display[i]))
	}
	if e.Value != nil {
		out.Display = append(out.Display, map[string]string{"text/plain": e.Value.Repr})
	}
	switch x := e.Exception; {
	case x != nil:
		out.Stderr = strings.TrimSuffix(out.Stderr, x.Traceback) // notebooks have the traceback only in the error
		out.Error = append(out.Error, cellError{x.Type, x.Message, strings.Split(strings.TrimRight(x.Traceback, "\n"), "\n")})
	case e.Outcome != job.Succeeded:
		out.Error = append(out.Error, cellError{string(e.Outcome), e.Message, []string{}})
	}
	return out
}

// shown returns a figure or a table by media type.
func shown(d *job.Display) map[string]string {
	if d.Table == nil {
		return map[string]string{d.MediaType: d.Base64, "text/plain": "<" + d.MediaType + ">"}
	}
	var b strings.Builder
	b.WriteString(strings.Join(d.Table.Columns, "\t"))
	for _, row := range d.Table.Rows {
		b.WriteString("\n" + strings.Join(row, "\t"))
	}
	return map[string]string{"text/plain": b.String()}
}

// fetch reads files of the session as base64, by the client's names. It omits missing files.
func (n *notebook) fetch(paths map[string]string) (map[string]string, error) {
	out, room := map[string]string{}, maxFetched
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		at := paths[name]
		content, err := n.file(at, room)
		if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrInvalid) {
			continue
		}
		if err != nil {
			return nil, err
		}
		room -= len(content)
		out[name] = base64.StdEncoding.EncodeToString(content)
	}
	return out, nil
}

// file reads one file of at most most bytes.
func (n *notebook) file(at string, most int) ([]byte, error) {
	var content []byte
	for {
		reply, err := n.call(control.SessionCall{Op: control.SessionFile, Path: at, Offset: int64(len(content)), Length: maxPiece})
		if err != nil {
			return nil, err
		}
		if reply.Size > int64(most) {
			return nil, fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("fetch_files", "have more than %s together", job.Size(maxFetched)))
		}
		content = append(content, reply.Data...)
		if int64(len(content)) >= reply.Size || len(reply.Data) == 0 {
			return content, nil
		}
	}
}
