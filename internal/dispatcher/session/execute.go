package session

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Execute runs a snippet or a command in a session, records the result, and returns the record:
// JSON of job.Execute. If the session ended during the execution, that is a result, too. If it
// ended before, it is an error.
func (s *Service) Execute(ctx context.Context, tenant string, id job.ID, req api.ExecuteRequest) (json.RawMessage, error) {
	raw, _, err := s.execute(ctx, tenant, id, job.NewID(), req)
	return raw, err
}

// execute is Execute with a given id. After an error, begun is false if nothing was executed for
// certain.
func (s *Service) execute(ctx context.Context, tenant string, id, as job.ID, req api.ExecuteRequest) (raw json.RawMessage, begun bool, err error) {
	telemetry.Describe(ctx, telemetry.About{Session: id})
	at, err := s.place(ctx, tenant, id)
	if err != nil {
		return nil, false, err
	}
	c, err := executeCall(at.kind, as, req)
	if err != nil {
		return nil, false, err
	}
	c.Session, c.Tenant = id, tenant
	reply, end, err := s.call(ctx, at, c)
	e := reply.Execute
	if e == nil {
		if end == nil || end.Outcome != job.Lost { // nothing was executed, or its start was not reported
			return nil, !isRefusal(err), err
		}
		e = &job.Execute{ID: c.Execute, Outcome: end.Outcome, Message: "the session has ended: " + end.Message}
	}
	e.SessionID = id
	if e.Outcome == job.Succeeded && end != nil {
		e.Alive = false
	}
	raw, err = s.putExecute(ctx, c, e)
	return raw, true, err
}

// putExecute records the result of a call and returns the record.
func (s *Service) putExecute(ctx context.Context, c control.SessionCall, e *job.Execute) (json.RawMessage, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode execute: %w", err)
	}
	ctx = context.WithoutCancel(ctx) // it has happened, even if the client is gone
	if err := s.Store.PutExecute(ctx, store.Executed{Session: c.Session, ID: e.ID, Code: c.Code, Result: raw}); err != nil {
		return nil, fmt.Errorf("record execute: %w", err)
	}
	return raw, nil
}

// executeCall validates the request for a session of this kind.
func executeCall(kind job.SessionKind, as job.ID, req api.ExecuteRequest) (control.SessionCall, error) {
	c := control.SessionCall{Op: control.SessionExecute, Execute: as, Code: req.Code, Variables: req.Variables, Tagged: req.Tagged, Wall: req.Wall}
	switch {
	case (req.Code == "") == (req.Command == ""):
		return c, job.Invalid("code", "give either code or command")
	case req.Wall < 0:
		return c, job.Invalid("wall", "%s is negative", req.Wall)
	case req.Command != "":
		c.Op, c.Code = control.SessionShell, req.Command
	case kind == job.SessionShell:
		c.Op = control.SessionShell
	}
	if c.Op == control.SessionShell && len(req.Variables) > 0 {
		return c, job.Invalid("variables", "are for python snippets")
	}
	for _, name := range slices.Sorted(maps.Keys(req.Variables)) {
		if !job.PythonName(name) {
			return c, job.Invalid("variables", "%.80q is not a name", name)
		}
	}
	return c, nil
}
