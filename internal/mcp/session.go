package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

type createArgs struct {
	Kind        string  `json:"kind,omitempty" jsonschema:"python: snippets that share variables; shell: bash scripts that share a directory and an environment; default python"`
	IdleTimeout float64 `json:"idle_timeout,omitempty" jsonschema:"the session ends when nothing was executed in it for so long, in seconds (1 to 86400); default: 600 over HTTP, else as long as this server runs"`
	Policy      string  `json:"policy,omitempty" jsonschema:"name of a stored policy; default: the policy of this server's configuration"`
	Image       string  `json:"image,omitempty" jsonschema:"image to run in; default: python"`
}

// Created is a new session.
type Created struct {
	SessionID job.ID `json:"session_id" jsonschema:"for execute, read_artifact and close_session"`
	Kind      string `json:"kind" jsonschema:"python or shell"`
	Ends      string `json:"ends" jsonschema:"when the session ends by itself"`
}

type executeArgs struct {
	SessionID string         `json:"session_id" jsonschema:"as create_session returned it"`
	Code      string         `json:"code,omitempty" jsonschema:"code in the session's own language: python, or bash in a session of kind shell; either this or command"`
	Command   string         `json:"command,omitempty" jsonschema:"a line, or a script, for bash, in a session of either kind"`
	Timeout   float64        `json:"timeout,omitempty" jsonschema:"most time that it may take, in seconds (above 0, at most 86400, and no more than the session's policy allows); then it is interrupted and the session lives on; default: the policy's"`
	Variables map[string]any `json:"variables,omitempty" jsonschema:"variables that are set before python code runs: any JSON values, by name"`
}

type closeArgs struct {
	SessionID string `json:"session_id" jsonschema:"as create_session returned it"`
}

// Closed is a closed session.
type Closed struct {
	SessionID job.ID `json:"session_id"`
	Closed    bool   `json:"closed" jsonschema:"always true: the session has ended"`
}

func (t *tools) addSessions(s *sdk.Server) {
	add(s, &sdk.Tool{Name: "create_session", Title: "Create a session", Annotations: sandboxed,
		Description: "Creates a sandbox that stays: variables, files and processes of one execution are there in the next. Close it when it is not needed any more."},
		map[string]limit{"idle_timeout": {least: 1, most: 86400}, "kind": {oneOf: []any{"python", "shell"}}}, t.create)
	add(s, &sdk.Tool{Name: "execute", Title: "Execute in a session", Annotations: sandboxed,
		Description: "Executes code, or a shell command, in a session and returns its output. Canceling the call interrupts it as Control-C does; variables stay."},
		map[string]limit{"timeout": seconds}, t.execute)
	add(s, &sdk.Tool{Name: "close_session", Title: "Close a session", Annotations: &sdk.ToolAnnotations{IdempotentHint: true},
		Description: "Ends a session, and deletes its files and variables."}, nil, t.close)
}

func (t *tools) create(ctx context.Context, _ *sdk.CallToolRequest, a createArgs) (*sdk.CallToolResult, Created, error) {
	policy, err := t.named(a.Policy)
	if err != nil {
		return nil, Created{}, err
	}
	spec := job.SessionSpec{Kind: job.SessionKind(a.Kind), Image: a.Image, Policy: policy, IdleTimeout: job.Duration(time.Duration(a.IdleTimeout * float64(time.Second)))}
	if t.mine != nil {
		return t.createMine(ctx, spec)
	}
	v, err := t.Fleet.CreateSession(ctx, spec)
	if err != nil {
		return nil, Created{}, err
	}
	return nil, Created{v.ID, string(v.Spec.Kind), fmt.Sprintf("when nothing was executed in it for %v", v.Spec.IdleTimeout)}, nil
}

// createMine creates a session that ends with the connection.
func (t *tools) createMine(ctx context.Context, spec job.SessionSpec) (*sdk.CallToolResult, Created, error) {
	spec.Lease = job.Duration(lease)
	if spec.IdleTimeout == 0 {
		spec.IdleTimeout = job.Duration(job.MaxIdle)
	}
	v, err := t.Fleet.CreateSession(ctx, spec)
	if err != nil {
		return nil, Created{}, err
	}
	t.mine.add(v.ID)
	return nil, Created{v.ID, string(v.Spec.Kind), fmt.Sprintf("with this server, or when nothing was executed in it for %v", v.Spec.IdleTimeout)}, nil
}

func (t *tools) execute(ctx context.Context, rq *sdk.CallToolRequest, a executeArgs) (*sdk.CallToolResult, Payload, error) {
	id, err := idOf("session_id", a.SessionID)
	if err != nil {
		return nil, Payload{}, err
	}
	variables, err := exactly(rq)
	if err != nil {
		return nil, Payload{}, err
	}
	ask := api.ExecuteRequest{Code: a.Code, Command: a.Command, Variables: variables}
	if a.Timeout > 0 {
		ask.Wall = wallOf(a.Timeout)
	}
	defer tell(ctx, rq, func() string { return fmt.Sprintf("session %s executes", id) })()
	e, err := t.interruptible(ctx, id, ask)
	if err != nil {
		return nil, Payload{}, err
	}
	return answer(ofExecution(e))
}

// executed converts the result of an execution.
type executed struct {
	*job.Execute
	error
}

// interruptible executes in a session. The end of ctx interrupts the execution; without the
// interrupt it would continue.
func (t *tools) interruptible(ctx context.Context, id job.ID, ask api.ExecuteRequest) (*job.Execute, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan executed, 1)
	go func() {
		e, err := t.Fleet.Execute(own, id, ask)
		done <- executed{e, err}
	}()
	select {
	case d := <-done:
		return d.Execute, d.error
	case <-ctx.Done():
	}
	after, stop := afterwards(ctx)
	defer stop()
	err := t.interrupt(after, id, done)
	return nil, errors.Join(fmt.Errorf("the execution was interrupted with the call, and session %s lives on: %w", id, context.Cause(ctx)), err)
}

// interrupt interrupts a session until an execution is done or ctx ends. The first interrupt may
// come before the execution began.
func (t *tools) interrupt(ctx context.Context, id job.ID, done <-chan executed) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		err := t.Fleet.Interrupt(ctx, id)
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-again.C:
		}
	}
}

func (t *tools) close(ctx context.Context, _ *sdk.CallToolRequest, a closeArgs) (*sdk.CallToolResult, Closed, error) {
	id, err := idOf("session_id", a.SessionID)
	if err != nil {
		return nil, Closed{}, err
	}
	if _, err := t.Fleet.CloseSession(ctx, id); err != nil {
		return nil, Closed{}, err
	}
	if t.mine != nil {
		t.mine.drop(id)
	}
	return nil, Closed{SessionID: id, Closed: true}, nil
}
