package dropin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// fusionSlack is the additional time that clients of SandboxFusion wait (verl: ten seconds), less time for the
	// network.
	fusionSlack = 8 * time.Second
	// fusionDefault is the default of the time limits.
	fusionDefault = 10 * time.Second
	// maxFetched limits the total size of the files of a response, in bytes.
	maxFetched = 32 << 20
)

// sandboxFusion returns SandboxFusion's routes under a prefix.
func (h *Handlers) sandboxFusion(prefix string) []web.Route {
	return []web.Route{
		at("POST "+prefix+"/run_code", failFusion, h.runCode),
		at("POST "+prefix+"/run_jupyter", failFusion, h.runJupyter),
		pong("GET " + prefix + "/v1/ping"),
	}
}

// fusionRequest is a RunCodeRequest.
type fusionRequest struct {
	CompileTimeout *float64                   `json:"compile_timeout"` // seconds
	RunTimeout     *float64                   `json:"run_timeout"`     // seconds
	MemoryLimit    *float64                   `json:"memory_limit_MB"` // -1: the policy's
	Code           *string                    `json:"code"`
	Stdin          string                     `json:"stdin"`
	Language       string                     `json:"language"`
	Files          map[string]json.RawMessage `json:"files"` // base64 or null, by path
	FetchFiles     []string                   `json:"fetch_files"`
}

// fusionStatus is a RunStatus. fusionRun is a CommandRunResult with its CommandRunStatus.
type fusionStatus string

const (
	fusionSuccess      fusionStatus = "Success"
	fusionFailed       fusionStatus = "Failed"
	fusionSandboxError fusionStatus = "SandboxError"

	fusionFinished = "Finished"
	fusionTimeout  = "TimeLimitExceeded"
)

type fusionRun struct {
	Status        string  `json:"status"`
	ExecutionTime float64 `json:"execution_time"` // seconds
	CPUTime       float64 `json:"cpu_time"`       // seconds
	ReturnCode    *int    `json:"return_code"`
	Stdout        string  `json:"stdout"`
	Stderr        string  `json:"stderr"`
}

// fusionAnswer is a RunCodeResponse.
type fusionAnswer struct {
	Status        fusionStatus      `json:"status"`
	Message       string            `json:"message"`
	CompileResult *fusionRun        `json:"compile_result"`
	RunResult     *fusionRun        `json:"run_result"`
	ExecutorPod   *string           `json:"executor_pod_name"`
	Files         map[string]string `json:"files"`
	Assay         *extra            `json:"assay,omitempty"`
}

func (h *Handlers) runCode(w http.ResponseWriter, r *http.Request) error {
	var req fusionRequest
	if err := body(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	p, fetch, err := req.program()
	if text, ok := unfit(err); ok {
		return web.WriteJSON(w, http.StatusOK, fusionUnfit(text))
	}
	if err != nil {
		return err
	}
	e, err := h.run(r, p, web.Arrived(r).Add(p.compile.Wall.D()+p.wall+fusionSlack))
	if err != nil {
		return err
	}
	out := fusionAnswerOf(e, p)
	if out.Files, err = h.fetch(r.Context(), web.Tenant(r), e, fetch); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// program returns the program, and the paths of the files to return by the client's names.
func (q *fusionRequest) program() (*program, map[string]string, error) {
	p := &program{endpoint: SandboxFusion, stdin: q.Stdin}
	if q.Code == nil {
		return nil, nil, job.Invalid("code", "is missing")
	}
	var err error
	if p.language, err = find("language", q.Language); err != nil {
		return nil, nil, err
	}
	if err = checkText("stdin", q.Stdin, job.MaxSpec); err != nil {
		return nil, nil, err
	}
	if p.inputs, err = inputs("files", q.Files); err != nil {
		return nil, nil, err
	}
	if err = p.single("code", *q.Code); err != nil {
		return nil, nil, err
	}
	if p.wall, err = span("run_timeout", q.RunTimeout, time.Second, fusionDefault); err != nil {
		return nil, nil, err
	}
	compile, err := span("compile_timeout", q.CompileTimeout, time.Second, fusionDefault)
	if err != nil {
		return nil, nil, err
	}
	p.compile.Wall, p.memory = job.Duration(compile), size(q.MemoryLimit, job.MiB)
	p.raiseLimits()
	fetch, err := p.fetched(q.FetchFiles)
	return p, fetch, err
}

// fetched returns the paths of the files by the client's names, and adds them to the program's artifacts.
func (p *program) fetched(names []string) (map[string]string, error) {
	paths := map[string]string{}
	for i, name := range names {
		at, err := fetched(fmt.Sprintf("fetch_files[%d]", i), name)
		if err != nil {
			return nil, err
		}
		paths[name] = at
		p.fetch = append(p.fetch, at)
	}
	return paths, nil
}

// fusionUnfit returns the response for a program that did not run because its source is unfit.
func fusionUnfit(text string) *fusionAnswer {
	code := 1
	return &fusionAnswer{Status: fusionFailed, Files: map[string]string{}, Assay: refusedExtra(text), RunResult: &fusionRun{Status: fusionFinished, ReturnCode: &code, Stderr: text}}
}

// fusionAnswerOf returns the response for a result.
func fusionAnswerOf(e *programResult, p *program) *fusionAnswer {
	out := &fusionAnswer{Status: fusionFailed, Files: map[string]string{}, Assay: e.extra()}
	if n := len(e.Attempts); n > 0 {
		out.ExecutorPod = &e.Attempts[n-1].Worker
	}
	if e.Compiled != nil {
		out.CompileResult = compileResult(e.Compiled)
	}
	switch e.Outcome {
	case job.SetupError:
		out.Status, out.Message = fusionSandboxError, e.Message
		return out
	case job.CompileError:
		return out
	case job.Succeeded:
		out.Status = fusionSuccess
	}
	out.RunResult = &fusionRun{
		Status: fusionFinished, ExecutionTime: seconds(wall(&e.Usage)), CPUTime: seconds(e.Usage.CPUMS), ReturnCode: returnCode(e),
		Stdout: e.stdout, Stderr: e.stderr,
	}
	if e.Outcome == job.TimedOut {
		out.RunResult.Status, out.RunResult.ReturnCode = fusionTimeout, nil
	}
	return out
}

// returnCode returns the return code as Python's subprocess reports it: negative for a signal.
func returnCode(e *programResult) *int {
	code, signal := e.exit()
	if signal != "" {
		if code = -signals[signal]; code == 0 {
			code = 1
		}
	}
	return &code
}

func compileResult(c *job.Compiled) *fusionRun {
	out := &fusionRun{
		Status: fusionFinished, ExecutionTime: seconds(wall(&c.Usage)), CPUTime: seconds(c.Usage.CPUMS), ReturnCode: c.ExitCode,
		Stdout: c.Stdout.Text, Stderr: c.Stderr.Text,
	}
	switch {
	case c.Outcome == job.TimedOut:
		out.Status, out.ReturnCode = fusionTimeout, nil
	case c.Outcome == job.Succeeded:
		out.ReturnCode = new(int)
	case c.ExitCode == nil || *c.ExitCode == 0:
		killed := -signals["SIGKILL"]
		out.ReturnCode = &killed
	}
	return out
}

// fetch returns the requested files that the program left, as base64 by the client's names. It omits missing files.
func (h *Handlers) fetch(ctx context.Context, tenant string, e *programResult, paths map[string]string) (map[string]string, error) {
	out, room := map[string]string{}, int64(maxFetched)
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		at := paths[name]
		for i := range e.Artifacts {
			a := &e.Artifacts[i]
			if a.Path != at {
				continue
			}
			if room -= a.Bytes; room < 0 {
				return nil, fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("fetch_files", "have more than %s together; fetch them from job %s", job.Size(maxFetched), e.ID))
			}
			content, err := h.artifact(ctx, tenant, e.ID, a)
			if err != nil {
				return nil, err
			}
			out[name] = base64.StdEncoding.EncodeToString(content)
		}
	}
	return out, nil
}

func (h *Handlers) artifact(ctx context.Context, tenant string, id job.ID, a *job.Artifact) ([]byte, error) {
	stored, _, err := h.Files.OpenArtifact(ctx, tenant, id, a)
	if err != nil {
		return nil, fmt.Errorf("%w: open artifact %q of job %s: %v", job.ErrUnavailable, a.Path, id, err)
	}
	defer stored.Close()
	content, err := io.ReadAll(stored)
	if err != nil {
		return nil, fmt.Errorf("%w: read artifact %q of job %s: %v", job.ErrUnavailable, a.Path, id, err)
	}
	return content, nil
}
