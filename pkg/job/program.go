package job

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Program is what to run: exactly one field is set.
type Program struct {
	Python  *Python  `json:"python,omitempty"`
	Command *Command `json:"command,omitempty"`
	Tests   *Tests   `json:"tests,omitempty"`
	Code    *Code    `json:"code,omitempty"`
}

// Kind returns "python", "command", "tests" or "code"; "" if none is set.
func (p Program) Kind() string {
	switch {
	case p.Python != nil:
		return "python"
	case p.Command != nil:
		return "command"
	case p.Tests != nil:
		return "tests"
	case p.Code != nil:
		return "code"
	}
	return ""
}

// InLanguage returns what of p is in a language of the catalogue: its code, or the solution of tests that name one, as
// admission leaves them (they name python only where the solution is files). It is nil if nothing is.
func (p Program) InLanguage() *Code {
	if t := p.Tests; t != nil && t.Language != "" {
		return &Code{Language: t.Language, Source: t.Code, Files: t.Files, Compile: t.Compile}
	}
	return p.Code
}

// Python is a snippet, run as __main__ by the image's python3.
type Python struct {
	Code      string                     `json:"code"`
	Variables map[string]json.RawMessage `json:"variables,omitempty"` // set in the namespace before the code runs
	Context   json.RawMessage            `json:"context,omitempty"`   // the variable "context"
	// Tagged says that Variables and Context are in the tagged encoding of values, and not in plain JSON.
	Tagged bool `json:"tagged,omitempty"`
}

// Command runs argv in the image, or several steps in order.
type Command struct {
	Argv  []string `json:"argv,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
	Dir   string   `json:"dir,omitempty"` // working directory, default /workspace
	Steps []Step   `json:"steps,omitempty"`
}

// Code is a program in a language of the catalogue (package language). One that needs it is compiled first, in a sandbox
// of its own; what that yields is kept, and the same source is not compiled again.
type Code struct {
	Language string            `json:"language"`         // a name or an alias of the catalogue
	Source   string            `json:"source,omitempty"` // of one file; or files
	Files    map[string]string `json:"files,omitempty"`  // relative path → text; beneath /workspace
	Main     string            `json:"main,omitempty"`   // of files: which one it begins with; default the catalogue's name of it
	Stdin    string            `json:"stdin,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Compile  *Compile          `json:"compile,omitempty"`
}

// Paths returns where its sources lie, beneath the directory that it begins in, sorted. One file is called name.
func (c *Code) Paths(name string) []string {
	if len(c.Files) == 0 {
		return []string{name}
	}
	return slices.Sorted(maps.Keys(c.Files))
}

// Compile is how a program is compiled: what it is told, and its limits, which are not those of the run.
type Compile struct {
	Flags  []string `json:"flags,omitempty"`  // arguments after those of the catalogue
	Wall   Duration `json:"wall,omitempty"`   // default the catalogue's
	Memory Size     `json:"memory,omitempty"` // default the catalogue's, or the policy's where that is more
}

// Step is one part of a command, such as compile or run. A failing step ends
// the command.
type Step struct {
	Name   string          `json:"name"`
	Argv   []string        `json:"argv"`
	Stdin  string          `json:"stdin,omitempty"`
	Dir    string          `json:"dir,omitempty"`
	Policy json.RawMessage `json:"policy,omitempty"` // limits of this step, never above the job's
}

// Tests grades a solution that is never trusted.
type Tests struct {
	Code  string `json:"code"`            // the solution, in python; may be empty where every test is a stdio with argv
	Setup string `json:"setup,omitempty"` // runs before the solution and, in the other sandbox, before the check
	// Function is what is under test: a name, Class.method or Class().method. What stands
	// before () is called without arguments.
	Function      string  `json:"function,omitempty"`
	Cases         []Case  `json:"cases,omitempty"`
	Check         string  `json:"check,omitempty"` // python code that asserts things about candidate
	Stdio         []Stdio `json:"stdio,omitempty"`
	StopOnFailure bool    `json:"stop_on_failure,omitempty"`

	// CaseWall is the wall of each case and each stdio case that has none of its own.
	CaseWall Duration `json:"case_wall,omitempty"`

	// How values are compared, for cases that have no such field.
	Match             Match   `json:"match,omitempty"`
	Tolerance         float64 `json:"tolerance,omitempty"`
	AbsoluteTolerance float64 `json:"absolute_tolerance,omitempty"`
	RelativeTolerance float64 `json:"relative_tolerance,omitempty"`

	// Language is that of the solution, a name or an alias of the catalogue; default python. Other languages than that
	// can be graded by stdio alone.
	Language string            `json:"language,omitempty"`
	Files    map[string]string `json:"files,omitempty"`   // instead of code, as in Code
	Compile  *Compile          `json:"compile,omitempty"` // as in Code

	// Checker decides on the output of each stdio case, in place of a comparison; Interactor talks with the program of
	// each. At most one of them.
	Checker    *Checker `json:"checker,omitempty"`
	Interactor *Checker `json:"interactor,omitempty"`
	// Limits are what the limits of stdio cases are multiplied by, for each language that a solution may be written in.
	Limits map[string]Multiplier `json:"limits,omitempty"`

	// Class says that a class is what the solution is to write: its instances may
	// then answer for themselves in the check. See OfClass for the default.
	Class *bool `json:"class,omitempty"`

	// Functions are further functions of the solution that the check may call by their
	// names. What they answer is the solution's own word about itself: a check that
	// compares them with each other tests that they agree, and nothing else.
	Functions []string `json:"functions,omitempty"`

	// Process is where a check runs its solution: Separate, the default, or Shared.
	Process string `json:"process,omitempty"`
}

// The values of Tests.Process.
const (
	// Separate runs check and solution in sandboxes of their own. The solution cannot forge a verdict.
	Separate = "separate"
	// Shared runs both in one process and one module, so a check may capture output or patch modules. The solution can
	// forge every verdict: TestsResult.Forgeable marks the result.
	Shared = "shared"
)

// Candidate is what the check has by the name candidate: Function or, without it, the
// first of Functions.
func (t *Tests) Candidate() string {
	if t.Function == "" && len(t.Functions) > 0 {
		return t.Functions[0]
	}
	return t.Function
}

// OfClass reports whether Function names a class: Class says so or, if it does
// not say, the name does, as python writes those of classes: a capital first, and
// no underscore.
func (t *Tests) OfClass() bool {
	if t.Class != nil {
		return *t.Class
	}
	name := t.Candidate()
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name != "" && 'A' <= name[0] && name[0] <= 'Z' && !strings.Contains(name, "_")
}

// WallOf returns the wall of a case or stdio case: its own or, if that is 0, CaseWall. It returns 0 if neither is set.
func (t *Tests) WallOf(own Duration) Duration { return cmp.Or(own, t.CaseWall) }

// Case is one call of the function under test. One that expects nothing passes if the
// call returns.
type Case struct {
	Name              string                     `json:"name,omitempty"`
	Args              []json.RawMessage          `json:"args,omitempty" digits:"long"`
	Kwargs            map[string]json.RawMessage `json:"kwargs,omitempty" digits:"long"`
	Expected          json.RawMessage            `json:"expected,omitempty" digits:"long"`
	ExpectedType      string                     `json:"expected_type,omitempty"`
	ExpectedException string                     `json:"expected_exception,omitempty"`
	Weight            *float64                   `json:"weight,omitempty"` // default 1
	Wall              Duration                   `json:"wall,omitempty"`

	// How the value is compared with Expected. The defaults are the fields of Tests.
	Match             Match   `json:"match,omitempty"`
	Tolerance         float64 `json:"tolerance,omitempty"`
	AbsoluteTolerance float64 `json:"absolute_tolerance,omitempty"`
	RelativeTolerance float64 `json:"relative_tolerance,omitempty"`
}

// File is one input file: exactly one field is set.
type File struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
	Blob   string  `json:"blob,omitempty"` // "sha256:…" of a blob uploaded before
}
