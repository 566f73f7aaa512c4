package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// input is the content of one file of a sandbox.
type input struct {
	Text   *string `json:"text,omitempty" jsonschema:"content of a text file, in UTF-8"`
	Base64 *string `json:"base64,omitempty" jsonschema:"content of any file, in base64"`
}

// common are the arguments of every run.
type common struct {
	Timeout   float64          `json:"timeout,omitempty" jsonschema:"most time that the program may take, in seconds (above 0, at most 86400, and no more than its policy allows); default: the policy's"`
	Files     map[string]input `json:"files,omitempty" jsonschema:"files to put into the sandbox, by path; a relative path is in /workspace, where programs start"`
	Artifacts []string         `json:"artifacts,omitempty" jsonschema:"which files to keep when the program has ended, as globs; a relative one is in /workspace, ** crosses directories"`
	Policy    string           `json:"policy,omitempty" jsonschema:"name of a stored policy with the program's permissions and limits; default: the policy of this server's configuration"`
	Image     string           `json:"image,omitempty" jsonschema:"image to run in; default: python"`
}

type pythonArgs struct {
	Code      string         `json:"code" jsonschema:"python code, at most 1 MiB; the value of its last expression is returned, too"`
	Variables map[string]any `json:"variables,omitempty" jsonschema:"variables that are set before the code runs: any JSON values, by name"`
	common
}

type commandArgs struct {
	Argv  []string `json:"argv,omitempty" jsonschema:"the program and its arguments; either this or shell"`
	Shell string   `json:"shell,omitempty" jsonschema:"a line, or a script, for /bin/sh; either this or argv"`
	Stdin string   `json:"stdin,omitempty" jsonschema:"standard input of the program, as text"`
	common
}

type resultArgs struct {
	JobID string `json:"job_id" jsonschema:"id of a run"`
}

// sandboxed marks tools that change nothing outside their sandbox.
var sandboxed = &sdk.ToolAnnotations{DestructiveHint: new(bool)}

func (t *tools) addRuns(s *sdk.Server) {
	limits := map[string]limit{"timeout": seconds}
	add(s, &sdk.Tool{Name: "run_python", Title: "Run Python", Annotations: sandboxed,
		Description: "Runs Python code in a new sandbox and returns its output. Only the files in artifacts are kept; use a session to keep variables."}, limits, t.runPython)
	add(s, &sdk.Tool{Name: "run_command", Title: "Run a command", Annotations: sandboxed,
		Description: "Runs a command, or a shell script, in a new sandbox and returns its output. Only the files in artifacts are kept."}, limits, t.runCommand)
	add(s, &sdk.Tool{Name: "get_result", Title: "Get the result of a run", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
		Description: "Waits for a run whose earlier call ended too soon, and returns its result. The run continues if this call is canceled."}, nil, t.getResult)
}

func (t *tools) runPython(ctx context.Context, rq *sdk.CallToolRequest, a pythonArgs) (*sdk.CallToolResult, Payload, error) {
	variables, err := exactly(rq)
	if err != nil {
		return nil, Payload{}, err
	}
	return t.run(ctx, rq, job.Program{Python: &job.Python{Code: a.Code, Variables: variables}}, a.common)
}

// exactly returns the argument variables as sent: a number may have more digits than a float64
// keeps.
func exactly(rq *sdk.CallToolRequest) (map[string]json.RawMessage, error) {
	var sent struct {
		Variables map[string]json.RawMessage `json:"variables"`
	}
	if err := json.Unmarshal(rq.Params.Arguments, &sent); err != nil {
		return nil, job.Invalid("variables", "must be an object: %v", err)
	}
	return sent.Variables, nil
}

func (t *tools) runCommand(ctx context.Context, rq *sdk.CallToolRequest, a commandArgs) (*sdk.CallToolResult, Payload, error) {
	switch {
	case a.Shell != "" && len(a.Argv) > 0:
		return nil, Payload{}, job.Invalid("argv, shell", "are both there: send one of them")
	case a.Shell != "":
		a.Argv = []string{"/bin/sh", "-c", a.Shell}
	case len(a.Argv) == 0:
		return nil, Payload{}, job.Invalid("argv", "is missing: send the command as argv, or a line for the shell as shell")
	}
	return t.run(ctx, rq, job.Program{Command: &job.Command{Argv: a.Argv, Stdin: a.Stdin}}, a.common)
}

// run runs a program to its end. If the call is canceled, so is the job.
func (t *tools) run(ctx context.Context, rq *sdk.CallToolRequest, p job.Program, a common) (*sdk.CallToolResult, Payload, error) {
	policy, err := t.policy(ctx, a)
	if err != nil {
		return nil, Payload{}, err
	}
	accepted, err := t.submit(ctx, job.Spec{Program: p, Image: a.Image, Files: files(a.Files), Policy: policy})
	if err != nil {
		return nil, Payload{}, err
	}
	res, err := t.await(ctx, rq, accepted.ID)
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrLeaving) {
		ctx, cancel := afterwards(ctx)
		defer cancel()
		_, stopped := t.Fleet.Cancel(ctx, accepted.ID)
		err = errors.Join(fmt.Errorf("job %s was canceled with the call: %w", accepted.ID, err), stopped)
	}
	if err != nil {
		return nil, Payload{}, err
	}
	return answer(of(res))
}

// submit submits a job. The end of ctx does not stop it at once: a job with an unknown ID could not
// be canceled.
func (t *tools) submit(ctx context.Context, spec job.Spec) (api.Accepted, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(parting):
			cancel()
		case <-own.Done():
		}
	})
	defer stop()
	return t.Fleet.Submit(own, spec)
}

// await waits for the result of a job and reports progress to the client.
func (t *tools) await(ctx context.Context, rq *sdk.CallToolRequest, id job.ID) (*job.Result, error) {
	defer tell(ctx, rq, func() string {
		j, err := t.Fleet.Job(ctx, id, 0)
		if err != nil {
			return fmt.Sprintf("job %s: the fleet does not answer", id)
		}
		if j.Message != "" {
			return fmt.Sprintf("job %s is %s: %s", id, j.State, j.Message)
		}
		return fmt.Sprintf("job %s is %s", id, j.State)
	})()
	res, err := t.Fleet.Result(ctx, id)
	if err != nil && errors.Is(context.Cause(ctx), ErrLeaving) {
		return nil, left(id)
	}
	return res, err
}

func (t *tools) getResult(ctx context.Context, rq *sdk.CallToolRequest, a resultArgs) (*sdk.CallToolResult, Payload, error) {
	id, err := idOf("job_id", a.JobID)
	if err != nil {
		return nil, Payload{}, err
	}
	res, err := t.await(ctx, rq, id)
	if err != nil {
		return nil, Payload{}, err
	}
	return answer(of(res))
}

// answer makes an answer from a program's result: text, links to its files and, if the fault is not
// the program's, an error.
func answer(p Payload) (*sdk.CallToolResult, Payload, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, p, err
	}
	res := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(raw)}}}
	for _, f := range p.Artifacts {
		if f.URI != "" {
			res.Content = append(res.Content, f.link())
		}
	}
	if !p.Outcome.OfProgram() {
		res.IsError = true
		res.Content = append(res.Content, &sdk.TextContent{Text: "The program is not at fault: " + then(p.Outcome)})
	}
	return res, p, nil
}

// then returns advice for an outcome that the program did not cause.
func then(o job.Outcome) string {
	switch o {
	case job.SetupError:
		return "its image, packages or files are unavailable. Request others, or call again later."
	case job.OutcomeCanceled:
		return "it was canceled. Call again if it is still wanted."
	}
	return "the fleet could not run it to its end. Call again."
}

// files returns the files of a job. Relative paths are in the start directory of programs.
func files(in map[string]input) map[string]job.File {
	if len(in) == 0 {
		return nil
	}
	out := map[string]job.File{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out[inWorkspace(name)] = job.File{Text: in[name].Text, Base64: in[name].Base64}
	}
	return out
}

func inWorkspace(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return "/workspace/" + name
}

// idOf parses an ID of a job or a session.
func idOf(field, text string) (job.ID, error) {
	id, err := job.ParseID(text)
	if err != nil {
		return "", job.Invalid(field, "%.60q is not an id as the tools return them", text)
	}
	return id, nil
}
