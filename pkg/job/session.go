package job

import (
	"encoding/json"
	"time"
	"unicode"
	"unicode/utf8"
)

// SessionKind is what is executed in a session.
type SessionKind string

// The kinds.
const (
	SessionPython SessionKind = "python" // snippets that share a namespace
	SessionShell  SessionKind = "shell"  // bash scripts that share a directory and an environment
)

// SessionState is where a session stands.
type SessionState string

// The states.
const (
	SessionLive  SessionState = "live"
	SessionEnded SessionState = "ended"
)

// SessionSpec is a session as a client asks for it. Policy's wall, cpu_time, stdout
// and stderr are for each execution; its other limits are for the session as a whole.
type SessionSpec struct {
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Kind        SessionKind       `json:"kind,omitempty"`         // default python
	Image       string            `json:"image,omitempty"`        // default python
	Pool        string            `json:"pool,omitempty"`         // as a job's
	Policy      json.RawMessage   `json:"policy,omitempty"`       // an object, or the name of a stored one
	IdleTimeout Duration          `json:"idle_timeout,omitempty"` // ends without an execution for so long; default 10m
	Lease       Duration          `json:"lease,omitempty"`        // ends without any sign of its client for so long; 0: does not
	Functions   []string          `json:"functions,omitempty"`    // host functions, answered by the client; policy.callbacks allows them
}

// Session is a live interpreter, or what is known of one that has ended.
type Session struct {
	ID         ID           `json:"id"`
	Spec       SessionSpec  `json:"spec"` // its policy with every default filled in
	State      SessionState `json:"state"`
	Outcome    Outcome      `json:"outcome,omitempty"` // once it has ended
	Message    string       `json:"message,omitempty"`
	Worker     string       `json:"worker"`
	Parent     ID           `json:"parent,omitempty"` // that it was forked from
	Executions int          `json:"executions"`       // how many are recorded
	Executes   int          `json:"executes"`         // the same, by its older name
	CreatedAt  time.Time    `json:"created_at"`
	EndedAt    *time.Time   `json:"ended_at,omitempty"`

	Enforcement []Enforcement `json:"enforcement,omitempty"` // of its policy, in every execution
}

// Execute is what came of one execution in a session.
type Execute struct {
	ID        ID                  `json:"id"`
	SessionID ID                  `json:"session_id"`
	Outcome   Outcome             `json:"outcome"`
	Message   string              `json:"message,omitempty"`
	ExitCode  *int                `json:"exit_code,omitempty"`
	Stdout    Output              `json:"stdout"`
	Stderr    Output              `json:"stderr"`
	Output    []Chunk             `json:"output,omitempty"` // both streams in the order in which they were written
	Value     *Value              `json:"value"`
	Source    string              `json:"source,omitempty"` // the name of the snippet in tracebacks
	Exception *ExceptionInfo      `json:"exception,omitempty"`
	Variables map[string]Variable `json:"variables,omitempty"` // new and changed
	Display   []Display           `json:"display,omitempty"`
	WallMS    float64             `json:"wall_ms"`         // as the session itself measured it
	Usage     Usage               `json:"usage"`           // as the worker did: CPU since the end of the execution before, peaks since the beginning
	Calls     int                 `json:"calls,omitempty"` // of host functions, those that were refused among them
	Alive     bool                `json:"alive"`           // whether the session is, after it
}

// Export is what a session left behind when it was last asked for that, or at its end.
type Export struct {
	Artifacts  []Artifact `json:"artifacts"`
	Feedback   []string   `json:"feedback,omitempty"` // what is not there although the policy names it, and why
	ExportedAt *time.Time `json:"exported_at,omitempty"`
}

// SessionReset is what a reset did. Names are cut to the first few hundred.
type SessionReset struct {
	Dropped   []string `json:"dropped"`   // names of the namespace that are gone
	Modules   []string `json:"modules"`   // that were imported of the session's own files, and are not any more
	Functions []string `json:"functions"` // of the host that are still there: those that the session was made with
	Kept      []string `json:"kept"`      // what else is, in words
}

// Chunk is a piece of output.
type Chunk struct {
	Stream string `json:"stream"` // stdout or stderr
	Text   string `json:"text"`
}

// Display is something to look at: a figure, or a data frame as a table.
type Display struct {
	MediaType string `json:"media_type"`
	Base64    string `json:"base64,omitempty"`
	Path      string `json:"path,omitempty"` // of the file in the sandbox that it is in; an artifact, if the policy says so
	Table     *Table `json:"table,omitempty"`
}

// Table is the head of a data frame.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Total   int        `json:"total"` // rows of the whole
}

// HostCall is a call of a host function that waits for its client's answer.
type HostCall struct {
	Call   int64           `json:"call"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Kwargs json.RawMessage `json:"kwargs"`
}

// The bounds of a session's times.
const (
	DefaultIdle = 10 * time.Minute
	MaxIdle     = 24 * time.Hour
)

// Validate returns s with its defaults filled in, or a *FieldError.
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

// CheckNames refuses what is no python name, naming the field.
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

// PythonName reports whether s can name a variable: whether it is a Python identifier of at most 200 bytes. Python brings
// identifiers to the Unicode form NFKC, which is done where the variable is set.
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

// The characters of Python identifiers: those that may begin one, and those that may follow besides.
var (
	nameStart = []*unicode.RangeTable{unicode.Letter, unicode.Nl, unicode.Other_ID_Start}
	nameRest  = []*unicode.RangeTable{unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Other_ID_Continue}
)
