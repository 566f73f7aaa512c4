package job

import (
	"encoding/json"
	"time"
	"unicode"
	"unicode/utf8"
)

// SessionKind is the kind of code that a session executes.
type SessionKind string

// The kinds.
const (
	SessionPython SessionKind = "python" // snippets that share a namespace
	SessionShell  SessionKind = "shell"  // bash scripts that share a directory and an environment
)

// SessionState is the state of a session.
type SessionState string

// The states.
const (
	SessionLive  SessionState = "live"
	SessionEnded SessionState = "ended"
)

// SessionSpec is a client's request for a session. Wall, cpu_time, stdout and stderr of its policy
// apply to each execution. Other limits apply to the whole session.
type SessionSpec struct {
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Kind   SessionKind       `json:"kind,omitempty"`   // default python
	Image  string            `json:"image,omitempty"`  // default python
	Pool   string            `json:"pool,omitempty"`   // as for jobs
	Policy json.RawMessage   `json:"policy,omitempty"` // an object, or the name of a stored policy
	// the session ends after this time without an execution; default 10m
	IdleTimeout Duration `json:"idle_timeout,omitempty"`
	// the session ends after this time without contact from its client; 0: never
	Lease Duration `json:"lease,omitempty"`
	// host functions that the client answers; policy.callbacks allows them
	Functions []string `json:"functions,omitempty"`
}

// Session is a live interpreter, or the record of an ended one.
type Session struct {
	ID         ID           `json:"id"`
	Tenant     string       `json:"tenant,omitempty"`
	Spec       SessionSpec  `json:"spec"` // the policy has all defaults filled in
	State      SessionState `json:"state"`
	Outcome    Outcome      `json:"outcome,omitempty"` // after the end
	Message    string       `json:"message,omitempty"`
	Worker     string       `json:"worker"`
	Parent     ID           `json:"parent,omitempty"` // the session that it was forked from
	Executions int          `json:"executions"`       // number of recorded executions
	CreatedAt  time.Time    `json:"created_at"`
	EndedAt    *time.Time   `json:"ended_at,omitempty"`

	Enforcement []Enforcement `json:"enforcement,omitempty"` // of its policy, for every execution
}

// Execute is the result of one execution in a session.
type Execute struct {
	ID        ID                  `json:"id"`
	SessionID ID                  `json:"session_id"`
	Outcome   Outcome             `json:"outcome"`
	Message   string              `json:"message,omitempty"`
	ExitCode  *int                `json:"exit_code,omitempty"`
	Stdout    Output              `json:"stdout"`
	Stderr    Output              `json:"stderr"`
	Output    []Chunk             `json:"output,omitempty"` // both streams in write order
	Value     *Value              `json:"value"`
	Source    string              `json:"source,omitempty"` // name of the snippet in tracebacks
	Exception *ExceptionInfo      `json:"exception,omitempty"`
	Variables map[string]Variable `json:"variables,omitempty"` // new and changed
	Display   []Display           `json:"display,omitempty"`
	WallMS    float64             `json:"wall_ms"` // measured by the session itself
	// measured by the worker: CPU since the previous execution, peaks since the start
	Usage Usage `json:"usage"`
	Calls int   `json:"calls,omitempty"` // calls of host functions, including refused ones
	Alive bool  `json:"alive"`           // whether the session survived
}

// Export is the files of a session at the last export or at its end.
type Export struct {
	Artifacts  []Artifact `json:"artifacts"`
	Feedback   []string   `json:"feedback,omitempty"` // files in the policy that are missing, with reasons
	ExportedAt *time.Time `json:"exported_at,omitempty"`
}

// SessionReset is the result of a reset. Lists of names are cut to a few hundred.
type SessionReset struct {
	Dropped   []string `json:"dropped"`   // names removed from the namespace
	Modules   []string `json:"modules"`   // unloaded modules that came from the session's own files
	Functions []string `json:"functions"` // remaining host functions: those from the start of the session
	Kept      []string `json:"kept"`      // other state that survived, in words
}

// Chunk is a piece of output.
type Chunk struct {
	Stream string `json:"stream"` // stdout or stderr
	Text   string `json:"text"`
}

// Display is a figure, or a data frame as a table.
type Display struct {
	MediaType string `json:"media_type"`
	Base64    string `json:"base64,omitempty"`
	Path      string `json:"path,omitempty"` // path of the file in the sandbox; an artifact if the policy lists it
	Table     *Table `json:"table,omitempty"`
}

// Table is the head of a data frame.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Total   int        `json:"total"` // rows of the whole frame
}

// HostCall is a pending call of a host function. The client answers it.
type HostCall struct {
	Call   int64           `json:"call"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Kwargs json.RawMessage `json:"kwargs"`
}

// The limits of a session's times.
const (
	DefaultIdle = 10 * time.Minute
	MaxIdle     = 24 * time.Hour
)

// Validate returns s with defaults filled in, or a *FieldError.
func (s SessionSpec) Validate() (SessionSpec, error) {
	if err := (Spec{Name: s.Name, Labels: s.Labels, Pool: s.Pool, Program: Program{Python: &Python{Code: "0"}}}).Validate(); err != nil {
		return s, err
	}
	if s.Kind == "" {
		s.Kind = SessionPython
	}
	if s.Kind != SessionPython && s.Kind != SessionShell {
		return s, Invalid("kind", "%.40q must be python or shell", s.Kind)
	}
	if s.Image == "" {
		s.Image = "python"
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = Duration(DefaultIdle)
	}
	if s.IdleTimeout < Duration(time.Second) || s.IdleTimeout > Duration(MaxIdle) {
		return s, Invalid("idle_timeout", "%s must be from 1s to %s", s.IdleTimeout, MaxIdle)
	}
	if s.Lease != 0 && (s.Lease < Duration(time.Second) || s.Lease > Duration(MaxIdle)) {
		return s, Invalid("lease", "%s must be from 1s to %s, or left out", s.Lease, MaxIdle)
	}
	return s, CheckNames("functions", s.Functions)
}

// CheckNames returns an error for field unless all names are Python names.
func CheckNames(field string, names []string) error {
	if len(names) > 100 {
		return Invalid(field, "has %d names; at most 100", len(names))
	}
	for _, n := range names {
		if !PythonName(n) {
			return Invalid(field, "%.80q is not a Python name: letters, digits and _, not beginning with a digit", n)
		}
	}
	return nil
}

// PythonName reports whether s is a Python identifier of at most 200 bytes. Python normalizes
// identifiers to NFKC; the code that sets the variable does so.
func PythonName(s string) bool {
	if s == "" || len(s) > 200 || !utf8.ValidString(s) {
		return false
	}
	for i, c := range s {
		if c != '_' && !unicode.In(c, nameStart...) && (i == 0 || !unicode.In(c, nameRest...)) {
			return false
		}
	}
	return true
}

// The character classes of Python identifiers: start characters and additional later ones.
var (
	nameStart = []*unicode.RangeTable{unicode.Letter, unicode.Nl, unicode.Other_ID_Start}
	nameRest  = []*unicode.RangeTable{unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Other_ID_Continue}
)
