package mcp

import (
	"context"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/version"
	"github.com/assay-run/assay/pkg/job"
)

// Fleet is the part of a fleet that tools use; *client.Client implements it.
type Fleet interface {
	Submit(ctx context.Context, spec job.Spec) (api.Accepted, error)
	Job(ctx context.Context, id job.ID, wait time.Duration) (*job.Job, error)
	Result(ctx context.Context, id job.ID) (*job.Result, error)
	Cancel(ctx context.Context, id job.ID) (api.Accepted, error)
	Output(ctx context.Context, id job.ID, stream string, step int) (io.ReadCloser, error)
	Artifacts(ctx context.Context, id job.ID) ([]job.Artifact, error)
	Artifact(ctx context.Context, id job.ID, path string) (io.ReadCloser, error)
	Policy(ctx context.Context, name string) (json.RawMessage, error)

	CreateSession(ctx context.Context, spec job.SessionSpec) (*job.Session, error)
	Execute(ctx context.Context, id job.ID, rq api.ExecuteRequest) (*job.Execute, error)
	Interrupt(ctx context.Context, id job.ID) error
	KeepSession(ctx context.Context, id job.ID) error
	CloseSession(ctx context.Context, id job.ID) (*job.Session, error)
	FileRange(ctx context.Context, id job.ID, path string, offset, n int64) ([]byte, error)
}

// Config configures the tools.
type Config struct {
	Fleet  Fleet
	Policy json.RawMessage // default policy: an object, or the name of a stored one; nil: the fleet's default
}

// instructions are for the model that uses the tools.
const instructions = `Runs programs in sandboxes, with limits of time and memory and, unless a policy opens it, without a network.
run_python and run_command start afresh each time. For several steps that build on each other create a session, execute in it, and close it.
A program that fails is not an error of the tool: look at success, stderr and diagnostics. Files are kept where artifacts names them.`

// tools are the tools of one server.
type tools struct {
	Config
	mine *sessions // sessions that end with the connection; nil: sessions end by their idle timeout
}

// server returns an MCP server with all tools.
func (t *tools) server() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "assay", Title: "Assay", Version: version.String()}, &sdk.ServerOptions{
		Instructions: instructions,
		// none of them changes
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
	})
	t.addRuns(s)
	t.addSessions(s)
	t.addFiles(s)
	return s
}

// add adds a tool. Its errors carry advice for the agent, and its calls end with their caller.
func add[In, Out any](s *sdk.Server, tool *sdk.Tool, limits map[string]limit, h func(context.Context, *sdk.CallToolRequest, In) (*sdk.CallToolResult, Out, error)) {
	tool.InputSchema = schema[In](limits)
	sdk.AddTool(s, tool, func(ctx context.Context, rq *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		var none Out
		if !utf8.Valid(rq.Params.Arguments) {
			return nil, none, advised(job.Invalid("arguments", "are not UTF-8; send binary data as a file, in base64"))
		}
		ctx, stop := whileWanted(ctx)
		defer stop()
		res, out, err := h(ctx, rq, in)
		if err != nil {
			return nil, none, advised(err)
		}
		return res, out, nil
	})
}

type wantedKey struct{}

// withWanted returns a ctx whose calls end with wanted. The library keeps the values of a call's
// context but drops the end of its request.
func withWanted(ctx, wanted context.Context) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted)
}

// whileWanted returns a ctx that ends when the call is no longer wanted.
func whileWanted(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	wanted, ok := ctx.Value(wantedKey{}).(context.Context)
	if !ok {
		return ctx, func() { cancel(nil) }
	}
	release := context.AfterFunc(wanted, func() { cancel(context.Cause(wanted)) })
	return ctx, func() { release(); cancel(nil) }
}
