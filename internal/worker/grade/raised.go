package grade

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Limits of a recorded exception in bytes, equal to those of a snippet.
const (
	maxType      = 256
	maxMessage   = 8 << 10
	maxTraceback = 48 << 10
)

// note records the first exception that failed the solution. It comes from the solution's own
// sandbox, so it reveals nothing of the check.
func (g *grading) note(e *exception) {
	if e == nil || g.raised != nil {
		return
	}
	g.raised = &job.ExceptionInfo{Type: most(e.Type, maxType), Message: most(e.Message, maxMessage), Line: e.Line, Traceback: most(e.Traceback, maxTraceback)}
}

// most limits text from the solution's sandbox and makes it valid UTF-8.
func most(s string, n int) string { return strings.ToValidUTF8(job.Clip(s, n), "�") }

// inScript matches the name of the solution's script.
const inScript = `"(?:[^"\n]*/)?solution\.py"`

// The start of a Python traceback (syntax errors have none), its last line, and the line that
// enters the solution.
var (
	title  = regexp.MustCompile(`(?m)^Traceback \(most recent call last\):\n`)
	untold = regexp.MustCompile(`(?m)^  File ` + inScript + `, line [0-9]+\n`)
	ending = regexp.MustCompile(`\n([A-Za-z_][\w.]*)(?:: ([^\n]*))?\s*$`)
	inLine = regexp.MustCompile(`File ` + inScript + `, line ([0-9]+)`)
)

// printed parses the exception at the end of a script's stderr, or returns nil. The script starts
// with the lines of the setup.
func (g *grading) printed(stderr string) *exception {
	if len(stderr) > maxTraceback {
		stderr = stderr[len(stderr)-maxTraceback:]
	}
	begins := title.FindAllStringIndex(stderr, -1)
	if begins == nil {
		begins = untold.FindAllStringIndex(stderr, -1)
	}
	if begins == nil {
		return nil
	}
	e := &exception{Traceback: stderr[begins[len(begins)-1][0]:]}
	m := ending.FindStringSubmatch(e.Traceback)
	if m == nil {
		return nil
	}
	e.Type, e.Message = m[1], m[2]
	if lines := inLine.FindAllStringSubmatch(e.Traceback, -1); len(lines) > 0 {
		n, _ := strconv.Atoi(lines[len(lines)-1][1])
		e.Line = max(n-strings.Count(strings.TrimSuffix(g.source(), g.Tests.Code), "\n"), 0)
	}
	return e
}
