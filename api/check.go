package api

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
)

// CheckRequest lists Python programs for a static check.
type CheckRequest struct {
	Programs []CheckProgram `json:"programs"`
	Image    string         `json:"image,omitempty"` // its Python parses the programs; default "python"
	Pool     string         `json:"pool,omitempty"`  // of the worker that checks
}

// CheckProgram is one program to check.
type CheckProgram struct {
	Name   string          `json:"name,omitempty"`
	Code   string          `json:"code"`
	Names  []string        `json:"names,omitempty"`  // names of its predefined variables
	Policy json.RawMessage `json:"policy,omitempty"` // policy with the rules for imports: an object or a name
}

// CheckReport has one result for each program of a request, in the same order.
type CheckReport struct {
	Programs []Checked `json:"programs"`
	Python   string    `json:"python"`                 // version of the interpreter
	Digest   string    `json:"image_digest,omitempty"` // of the interpreter's image
	Job      job.ID    `json:"job"`                    // the job that checked
}

// Checked is the result of the static check of one program.
type Checked struct {
	Name string `json:"name,omitempty"`
	// OK reports that the program compiles and has no visible forbidden imports: it would start to
	// run.
	OK        bool              `json:"ok"`
	Error     *CheckError       `json:"error,omitempty"`     // why it does not compile; then the other fields are empty
	Imports   []CheckedImport   `json:"imports"`             // all visible imports at any level
	Undefined []CheckedName     `json:"undefined"`           // names that are read but never bound
	Functions []CheckedFunction `json:"functions"`           // at the top level
	Classes   []CheckedClass    `json:"classes"`             // at the top level
	Truncated bool              `json:"truncated,omitempty"` // a list had more than 200 entries
}

// CheckError is a syntax error from Python, or the reason why a program could not be checked
// (Unjudged).
type CheckError struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Line      int    `json:"line,omitempty"`   // starts at 1
	Column    int    `json:"column,omitempty"` // starts at 1, in characters
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
	Text      string `json:"text,omitempty"` // of the source line
}

// CheckedImport is an import of a module, or of names from it.
type CheckedImport struct {
	Module    string   `json:"module"`
	Names     []string `json:"names,omitempty"`
	Line      int      `json:"line"`
	Forbidden bool     `json:"forbidden,omitempty"` // by the policy's rules
	// whether the image has its top-level module; nil: the policy's packages may have it
	Found *bool `json:"found,omitempty"`
}

// CheckedName is the first use of a name.
type CheckedName struct {
	Name   string `json:"name"`
	Line   int    `json:"line"`
	Column int    `json:"column"` // starts at 1, in bytes of UTF-8
}

// CheckedFunction is a function or a method.
type CheckedFunction struct {
	Name      string `json:"name"`
	Line      int    `json:"line"`
	Signature string `json:"signature"` // as in the source: "(a, b: int = 2) -> str"
	Async     bool   `json:"async,omitempty"`
}

// CheckedClass is a class.
type CheckedClass struct {
	Name    string            `json:"name"`
	Line    int               `json:"line"`
	Bases   []string          `json:"bases"`
	Methods []CheckedFunction `json:"methods"`
}
