package job

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Program is the work of a job. Exactly one field is set.
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

// InLanguage returns the part of p in a language of the catalogue, or nil. This is its code, or the
// solution of tests with a language. After admission, tests name python only if the solution
// consists of files.
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
	// Tagged reports whether Variables and Context are in the tagged encoding of values instead of
	// plain JSON.
	Tagged bool `json:"tagged,omitempty"`
}

// Command runs argv in the image, or several steps in order.
type Command struct {
	Argv  []string `json:"argv,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
	Dir   string   `json:"dir,omitempty"` // working directory, default /workspace
	Steps []Step   `json:"steps,omitempty"`
}

// Code is a program in a language of the catalogue (package language). A sandbox of its own
// compiles it first if necessary. The result is cached for the same source.
type Code struct {
	Language string            `json:"language"`         // a name or an alias of the catalogue
	Source   string            `json:"source,omitempty"` // of one file; an alternative to files
	Files    map[string]string `json:"files,omitempty"`  // relative path → text; beneath /workspace
	Main     string            `json:"main,omitempty"`   // the entry file among files; default: the catalogue's name
	Stdin    string            `json:"stdin,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Compile  *Compile          `json:"compile,omitempty"`
}

// Paths returns the sorted paths of the sources beneath the working directory. A single file is
// called name.
func (c *Code) Paths(name string) []string {
	if len(c.Files) == 0 {
		return []string{name}
	}
	return slices.Sorted(maps.Keys(c.Files))
}

// Compile holds the flags and limits of a compilation. They are separate from the limits of the
// run.
type Compile struct {
	Flags  []string `json:"flags,omitempty"`  // arguments after those of the catalogue
	Wall   Duration `json:"wall,omitempty"`   // default: the catalogue's
	Memory Size     `json:"memory,omitempty"` // default: the larger of the catalogue's and the policy's
}

// Step is one part of a command, such as compile or run. A failed step ends the command.
type Step struct {
	Name   string          `json:"name"`
	Argv   []string        `json:"argv"`
	Stdin  string          `json:"stdin,omitempty"`
	Dir    string          `json:"dir,omitempty"`
	Policy json.RawMessage `json:"policy,omitempty"` // limits of this step, never above the job's
}

// Tests grades an untrusted solution.
type Tests struct {
	Code  string `json:"code"`            // the solution, in python; may be empty where every test is a stdio with argv
	Setup string `json:"setup,omitempty"` // runs before the solution and, in the other sandbox, before the check
	// Function is the function under test: a name, Class.method or Class().method. The class before
	// () is called without arguments.
	Function      string  `json:"function,omitempty"`
	Cases         []Case  `json:"cases,omitempty"`
	Check         string  `json:"check,omitempty"` // python code with assertions about candidate
	Stdio         []Stdio `json:"stdio,omitempty"`
	StopOnFailure bool    `json:"stop_on_failure,omitempty"`

	// CaseWall is the default wall of each case and each stdio case.
	CaseWall Duration `json:"case_wall,omitempty"`

	// Defaults for the comparison of values in the cases.
	Match             Match   `json:"match,omitempty"`
	Tolerance         float64 `json:"tolerance,omitempty"`
	AbsoluteTolerance float64 `json:"absolute_tolerance,omitempty"`
	RelativeTolerance float64 `json:"relative_tolerance,omitempty"`

	// Language is the language of the solution: a name or an alias of the catalogue. Default python.
	// Other languages support stdio cases only.
	Language string            `json:"language,omitempty"`
	Files    map[string]string `json:"files,omitempty"`   // instead of code, as in Code
	Compile  *Compile          `json:"compile,omitempty"` // as in Code

	// Checker judges the output of each stdio case instead of a comparison. Interactor talks with the
	// program of each. At most one is set.
	Checker    *Checker `json:"checker,omitempty"`
	Interactor *Checker `json:"interactor,omitempty"`
	// Limits holds, for each language of solutions, the factors for the limits of stdio cases.
	Limits map[string]Multiplier `json:"limits,omitempty"`

	// Class reports whether the solution must write a class. Its instances may then answer for
	// themselves in the check. OfClass has the default.
	Class *bool `json:"class,omitempty"`

	// Functions are further functions of the solution that the check may call by name. Their answers
	// are untrusted: a check that compares two of them only tests that they agree.
	Functions []string `json:"functions,omitempty"`

	// Process selects where a check runs its solution: Separate (the default) or Shared.
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

// Candidate returns the name that check code calls candidate: Function or, without it, the first of
// Functions.
func (t *Tests) Candidate() string {
	if t.Function == "" && len(t.Functions) > 0 {
		return t.Functions[0]
	}
	return t.Function
}

// OfClass reports whether Function names a class. Class decides if it is set. Otherwise a name in
// Python's style for classes counts: an initial capital and no underscore.
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

// Case is one call of the function under test. A case without an expected value passes if the call
// returns.
type Case struct {
	Name              string                     `json:"name,omitempty"`
	Args              []json.RawMessage          `json:"args,omitempty" digits:"long"`
	Kwargs            map[string]json.RawMessage `json:"kwargs,omitempty" digits:"long"`
	Expected          json.RawMessage            `json:"expected,omitempty" digits:"long"`
	ExpectedType      string                     `json:"expected_type,omitempty"`
	ExpectedException string                     `json:"expected_exception,omitempty"`
	Weight            *float64                   `json:"weight,omitempty"` // default 1
	Wall              Duration                   `json:"wall,omitempty"`

	// The comparison of the value with Expected. Defaults: the fields of Tests.
	Match             Match   `json:"match,omitempty"`
	Tolerance         float64 `json:"tolerance,omitempty"`
	AbsoluteTolerance float64 `json:"absolute_tolerance,omitempty"`
	RelativeTolerance float64 `json:"relative_tolerance,omitempty"`
}

// File is one input file: exactly one field is set.
type File struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
	Blob   string  `json:"blob,omitempty"` // "sha256:…" of a previously uploaded blob
}
