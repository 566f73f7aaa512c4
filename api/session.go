package api

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// ExecuteRequest is one execution in a session: a snippet or a shell command.
type ExecuteRequest struct {
	Code      string                     `json:"code,omitempty"`      // in the language of the session
	Command   string                     `json:"command,omitempty"`   // for bash, in sessions of any kind
	Variables map[string]json.RawMessage `json:"variables,omitempty"` // set before a python snippet
	Tagged    bool                       `json:"tagged,omitempty"`    // variables are in the tagged encoding of values
	Wall      job.Duration               `json:"wall,omitempty"`      // at most the policy's wall
}

// SessionList lists sessions, newest first.
type SessionList struct {
	Sessions []job.Session `json:"sessions"`
}

// ExecutionList lists the executions of a session, oldest first.
type ExecutionList struct {
	Executions []fleet.Executed `json:"executions"`
}

// VariableList is the namespace of a session.
type VariableList struct {
	Variables map[string]job.Variable `json:"variables"`
}

// FunctionList names host functions to inject.
type FunctionList struct {
	Functions []string `json:"functions"`
}

// CallAnswer answers one call of a host function.
type CallAnswer struct {
	Call  int64           `json:"call"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"` // the session raises it as CallError
}
