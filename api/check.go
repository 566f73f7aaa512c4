package api

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
)

// CheckRequest names programs in python of which is to be said what can be seen without
// running them.
type CheckRequest struct {
	Programs []CheckProgram `json:"programs"`
	Image    string         `json:"image,omitempty"` // whose python reads them; default "python"
	Pool     string         `json:"pool,omitempty"`  // of the worker that does
}

// CheckProgram is one of them.
type CheckProgram struct {
	Name   string          `json:"name,omitempty"`
	Code   string          `json:"code"`
	Names  []string        `json:"names,omitempty"`  // that it is given: its variables
	Policy json.RawMessage `json:"policy,omitempty"` // whose imports it is held against, an object or a name
}

// CheckReport has one answer for each program of a request, in their order.
type CheckReport struct {
	Programs []Checked `json:"programs"`
	Python   string    `json:"python"`                 // version of the interpreter that read them
	Digest   string    `json:"image_digest,omitempty"` // of the image that it is of
	Job      job.ID    `json:"job"`                    // that did it
}

// Checked is what can be seen of one program.
type Checked struct {
	Name string `json:"name,omitempty"`
	// OK says that the program compiles and that none of its imports is seen to be forbidden:
	// it would begin to run.
	OK        bool              `json:"ok"`
	Error     *CheckError       `json:"error,omitempty"`     // why it does not compile; then there is nothing else
	Imports   []CheckedImport   `json:"imports"`             // all that can be seen, wherever they are
	Undefined []CheckedName     `json:"undefined"`           // names that are read and that nothing binds
	Functions []CheckedFunction `json:"functions"`           // at the top
	Classes   []CheckedClass    `json:"classes"`             // at the top
	Truncated bool              `json:"truncated,omitempty"` // a list had more than 200 entries
}

// CheckError is an error of syntax as python tells it, or why a program could not be judged
// (Unjudged).
type CheckError struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Line      int    `json:"line,omitempty"`   // from 1
	Column    int    `json:"column,omitempty"` // from 1, in characters
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
	Text      string `json:"text,omitempty"` // of the line
}

// CheckedImport is an import of a module, or of names from it.
type CheckedImport struct {
	Module    string   `json:"module"`
	Names     []string `json:"names,omitempty"`
	Line      int      `json:"line"`
	Forbidden bool     `json:"forbidden,omitempty"` // by the imports of the policy
	Found     *bool    `json:"found,omitempty"`     // whether the image has the module that it begins with; nil: the packages of the policy may
}

// CheckedName is where a name is read first.
type CheckedName struct {
	Name   string `json:"name"`
	Line   int    `json:"line"`
	Column int    `json:"column"` // from 1, in bytes of UTF-8
}

// CheckedFunction is a function or a method.
type CheckedFunction struct {
	Name      string `json:"name"`
	Line      int    `json:"line"`
	Signature string `json:"signature"` // as it is written: "(a, b: int = 2) -> str"
	Async     bool   `json:"async,omitempty"`
}

// CheckedClass is a class.
type CheckedClass struct {
	Name    string            `json:"name"`
	Line    int               `json:"line"`
	Bases   []string          `json:"bases"`
	Methods []CheckedFunction `json:"methods"`
}
