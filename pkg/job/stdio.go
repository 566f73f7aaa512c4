package job

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Stdio is one run of the program with an input and an expected output. Each is text, base64 for
// other bytes, or a blob.
type Stdio struct {
	Name   string   `json:"name,omitempty"`
	Stdin  string   `json:"stdin"`
	Stdout string   `json:"stdout"`
	Weight *float64 `json:"weight,omitempty"`
	Wall   Duration `json:"wall,omitempty"`
	Memory Size     `json:"memory,omitempty"` // of this run, at most the job's

	StdinBase64  string `json:"stdin_base64,omitempty"`
	StdinBlob    string `json:"stdin_blob,omitempty"` // "sha256:…" of a previously uploaded blob
	StdoutBase64 string `json:"stdout_base64,omitempty"`
	StdoutBlob   string `json:"stdout_blob,omitempty"`

	Argv    []string `json:"argv,omitempty"`    // runs instead of the solution as a script; files provide its inputs
	Compare Compare  `json:"compare,omitempty"` // default whitespace

	// Float tolerances. Tolerance is absolute or, above 1, relative to the expected number.
	// AbsoluteTolerance and RelativeTolerance replace it; one of them must hold. Default:
	// DefaultTolerance.
	Tolerance         float64 `json:"tolerance,omitempty"`
	AbsoluteTolerance float64 `json:"absolute_tolerance,omitempty"`
	RelativeTolerance float64 `json:"relative_tolerance,omitempty"`
	IgnoreCase        bool    `json:"ignore_case,omitempty"` // of ASCII letters
}

// Compare is a rule for equal outputs. Blanks are ASCII blanks.
type Compare string

// The ways to compare outputs.
const (
	CompareExact      Compare = "exact"      // byte by byte
	CompareWhitespace Compare = "whitespace" // ignores blanks at line ends and empty lines at the end
	CompareTokens     Compare = "tokens"     // compares the words between blanks
	CompareFloats     Compare = "floats"     // as tokens, with the tolerance for numbers
	CompareUnordered  Compare = "unordered"  // compares the lines in any order; ignores blanks at line ends and empty lines
)

var compares = []Compare{CompareExact, CompareWhitespace, CompareTokens, CompareFloats, CompareUnordered}

// DefaultTolerance is the tolerance of floats in tests without one.
const DefaultTolerance = 1e-6

// Input returns the program's input as a file.
func (s *Stdio) Input() File { return oneOf(s.Stdin, s.StdinBase64, s.StdinBlob) }

// Expected returns the expected output as a file.
func (s *Stdio) Expected() File { return oneOf(s.Stdout, s.StdoutBase64, s.StdoutBlob) }

func oneOf(text, encoded, blob string) File {
	switch {
	case blob != "":
		return File{Blob: blob}
	case encoded != "":
		return File{Base64: &encoded}
	}
	return File{Text: &text}
}

// Inline returns the bytes of a file that is no blob, or nil if its base64 is invalid.
func (f File) Inline() []byte {
	if f.Text != nil {
		return []byte(*f.Text)
	}
	data := []byte{}
	if f.Base64 != nil {
		data, _ = base64.StdEncoding.DecodeString(*f.Base64)
	}
	return data
}

// Blobs returns the blobs of the cases by field.
func (t *Tests) Blobs() map[string]string {
	out := map[string]string{}
	for i := range t.Stdio {
		s, at := &t.Stdio[i], "program.tests.stdio["+strconv.Itoa(i)+"]"
		if s.StdinBlob != "" {
			out[at+".stdin_blob"] = s.StdinBlob
		}
		if s.StdoutBlob != "" {
			out[at+".stdout_blob"] = s.StdoutBlob
		}
	}
	return out
}

func (s *Stdio) problem() (field, problem string) {
	if p := badName(s.Name, MaxName); s.Name != "" && p != "" {
		return "name", p
	}
	if field, p := badData("stdin", s.Stdin, s.StdinBase64, s.StdinBlob); p != "" {
		return field, p
	}
	if field, p := badData("stdout", s.Stdout, s.StdoutBase64, s.StdoutBlob); p != "" {
		return field, p
	}
	if s.Wall < 0 || s.Wall > MaxWall {
		return "wall", "must be 0s to " + MaxWall.String()
	}
	if s.Memory < 0 || s.Memory > 0 && s.Memory < MinCaseMemory {
		return "memory", "must be at least " + MinCaseMemory.String()
	}
	if field, p := s.badCompare(); p != "" {
		return field, p
	}
	if len(s.Argv) > 0 {
		if err := validateRun("", s.Argv, "", ""); err != nil {
			bad := err.(*FieldError)
			return strings.TrimPrefix(bad.Field, "."), bad.Problem
		}
	}
	return "weight", badWeight(s.Weight)
}

// badData checks one of the two streams of a case.
func badData(name, text, encoded, blob string) (field, problem string) {
	n := 0
	for _, s := range []string{text, encoded, blob} {
		if s != "" {
			n++
		}
	}
	if n > 1 {
		return name, "is there " + strconv.Itoa(n) + " times: give one of " + name + ", " + name + "_base64 and " + name + "_blob"
	}
	if p := badText(text, int(MaxSpec)); p != "" {
		return name, p + "; give other bytes as " + name + "_base64"
	}
	if err := checkBase64(encoded); err != nil {
		return name + "_base64", "is not valid: " + err.Error()
	}
	if p := badDigest(blob); blob != "" && p != "" {
		return name + "_blob", p
	}
	return "", ""
}

// badCompare checks the comparison fields of a case.
func (s *Stdio) badCompare() (field, problem string) {
	if s.Compare != "" && !slices.Contains(compares, s.Compare) {
		return "compare", "must be exact, whitespace, tokens, floats or unordered"
	}
	for _, t := range []struct {
		field string
		value float64
	}{{"tolerance", s.Tolerance}, {"absolute_tolerance", s.AbsoluteTolerance}, {"relative_tolerance", s.RelativeTolerance}} {
		if t.value != 0 && s.Compare != CompareFloats {
			return t.field, "is for compare: floats"
		}
		if !(t.value >= 0 && t.value <= 1e300) {
			return t.field, "must not be negative"
		}
	}
	if s.Tolerance != 0 && s.AbsoluteTolerance+s.RelativeTolerance != 0 {
		return "tolerance", "is absolute and relative at once: leave it out beside absolute_tolerance and relative_tolerance"
	}
	if s.IgnoreCase && s.Compare == CompareExact {
		return "ignore_case", "is not for compare: exact, which compares byte by byte"
	}
	return "", ""
}
