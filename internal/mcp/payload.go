package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Payload is the result of a program. Success, Stdout, Stderr, DurationMS and Diagnostics are
// always present.
type Payload struct {
	Success     bool         `json:"success" jsonschema:"whether the program ended by itself and without an error"`
	Stdout      string       `json:"stdout" jsonschema:"standard output; if it is long, the beginning and the end, and between them the call that returns the rest"`
	Stderr      string       `json:"stderr" jsonschema:"standard error, with the traceback of an uncaught exception; shortened like stdout"`
	DurationMS  float64      `json:"duration_ms" jsonschema:"how long it ran, in milliseconds of the wall clock"`
	Diagnostics []Diagnostic `json:"diagnostics" jsonschema:"the reason of a failure, and warnings; empty if there are none"`

	Outcome   job.Outcome `json:"outcome" jsonschema:"how it ended: succeeded, failed, exception, timed_out, out_of_memory, output_limit, disk_limit, process_limit, signaled, policy_violation, canceled, expired, lost, setup_error, compile_error"`
	ExitCode  *int        `json:"exit_code,omitempty" jsonschema:"its exit code, if it has one"`
	Value     string      `json:"value,omitempty" jsonschema:"repr of the value of the last expression of python code"`
	JobID     job.ID      `json:"job_id,omitempty" jsonschema:"of the run, for read_output, list_artifacts and read_artifact"`
	Artifacts []File      `json:"artifacts,omitempty" jsonschema:"files that were kept; read_artifact reads them"`

	SessionID job.ID `json:"session_id,omitempty" jsonschema:"the session that executed it"`
	Alive     *bool  `json:"alive,omitempty" jsonschema:"whether the session is still there; if not, create another one"`
}

// Diagnostic is one fact about how a program ran.
type Diagnostic struct {
	Severity string `json:"severity" jsonschema:"error: the reason of the failure; warning: a further note"`
	Kind     string `json:"kind" jsonschema:"an outcome, or: exception, feedback, truncated"`
	Message  string `json:"message" jsonschema:"one sentence for the author of the program"`
	Line     int    `json:"line,omitempty" jsonschema:"line of the code that was sent, from 1"`
}

// of converts a result for tools.
func of(r *job.Result) Payload {
	p := Payload{Success: r.Outcome == job.Succeeded, Outcome: r.Outcome, ExitCode: r.ExitCode, DurationMS: r.Usage.WallMS, JobID: r.ID}
	p.Diagnostics = diagnose(r.Outcome, r.Message, r.ExitCode, r.Exception)
	for _, f := range r.Feedback {
		p.note("feedback", f)
	}
	p.Stdout = p.stream("stdout", r.Stdout)
	p.Stderr = p.stream("stderr", withTraceback(r.Stderr, r.Exception))
	p.Value = shown(r.Value)
	for _, a := range r.Artifacts {
		p.Artifacts = append(p.Artifacts, fileOf(r.ID, a))
	}
	return p
}

// ofExecution converts the result of an execution for tools.
func ofExecution(e *job.Execute) Payload {
	p := Payload{Success: e.Outcome == job.Succeeded, Outcome: e.Outcome, ExitCode: e.ExitCode, DurationMS: e.WallMS, SessionID: e.SessionID, Alive: &e.Alive}
	p.Diagnostics = diagnose(e.Outcome, e.Message, e.ExitCode, e.Exception)
	p.Stdout = p.stream("stdout", e.Stdout)
	p.Stderr = p.stream("stderr", withTraceback(e.Stderr, e.Exception))
	p.Value = shown(e.Value)
	return p
}

// shown is the maximum length of a value. The worker has already shortened it; it is shortened
// again here.
func shown(v *job.Value) string {
	if v == nil {
		return ""
	}
	head, tail, cut := divide(v.Repr)
	if !cut {
		return v.Repr
	}
	return head + " … " + tail
}

// diagnose returns the reasons of a program's failure.
func diagnose(o job.Outcome, message string, exit *int, e *job.ExceptionInfo) []Diagnostic {
	switch {
	case o == job.Succeeded:
		return []Diagnostic{}
	case e != nil && (o == job.Exception || message == ""):
		return []Diagnostic{{Severity: "error", Kind: "exception", Message: e.Type + ": " + e.Message, Line: e.Line}}
	case message == "" && exit != nil:
		message = fmt.Sprintf("the program ended with exit code %d", *exit)
	case message == "":
		message = "the program ended as " + strings.ReplaceAll(string(o), "_", " ")
	}
	return []Diagnostic{{Severity: "error", Kind: string(o), Message: message}}
}

// note adds a warning unless it is already there.
func (p *Payload) note(kind, message string) {
	if !slices.ContainsFunc(p.Diagnostics, func(d Diagnostic) bool { return d.Message == message }) {
		p.Diagnostics = append(p.Diagnostics, Diagnostic{Severity: "warning", Kind: kind, Message: message})
	}
}

// withTraceback returns the standard error of a program, followed by the traceback if it is missing
// there.
func withTraceback(o job.Output, e *job.ExceptionInfo) job.Output {
	if e == nil || e.Traceback == "" || strings.Contains(o.Text, strings.TrimRight(e.Traceback, "\n")) {
		return o
	}
	if o.Text != "" && !strings.HasSuffix(o.Text, "\n") {
		o.Text += "\n"
	}
	o.Text += e.Traceback
	return o
}

// The limits of a stream in an answer, in bytes: as much as a model can read at once.
const (
	headBytes = 24 << 10
	tailBytes = 8 << 10
)

// stream shortens an output. A note in the middle gives the missing size and how to read the rest.
func (p *Payload) stream(name string, o job.Output) string {
	if o.Truncated {
		p.note("truncated", fmt.Sprintf("the program wrote %d bytes to %s, more than its policy keeps (%s.limit)", o.Bytes, name, name))
	}
	head, tail, cut := divide(o.Text)
	if !cut {
		return o.Text
	}
	all := int64(len(o.Text))
	if o.Stored != nil {
		all = o.Stored.Bytes
	}
	rest := fmt.Sprintf("read_output returns them: job_id %s, stream %s, offset %d", p.JobID, name, len(head))
	if p.JobID == "" {
		rest = "they are not kept: write long output to a file, and read parts of it with read_artifact, by session_id and path"
	}
	return fmt.Sprintf("%s\n[%d bytes of %d are left out here; %s]\n%s", head, all-int64(len(head)+len(tail)), all, rest, tail)
}

// divide returns the beginning and the end of a text that is too long for an answer.
func divide(text string) (head, tail string, cut bool) {
	if len(text) <= headBytes+tailBytes {
		return text, "", false
	}
	return whole(text[:headBytes]), strings.TrimLeftFunc(text[len(text)-tailBytes:], func(r rune) bool { return r == '\uFFFD' }), true
}
