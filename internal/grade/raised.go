package grade

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// What is kept of an exception, in bytes: as of a snippet's.
const (
	maxType      = 256
	maxMessage   = 8 << 10
	maxTraceback = 48 << 10
)

// note keeps the first exception by which the solution failed. It is what the solution's
// own sandbox said: nothing of the check, and none of its expectations, is in it.
func (g *grading) note(e *exception) {
	if e == nil || g.raised != nil {
		return
	}
	g.raised = &job.ExceptionInfo{Type: most(e.Type, maxType), Message: most(e.Message, maxMessage), Line: e.Line, Traceback: most(e.Traceback, maxTraceback)}
}

func most(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// The last traceback that python has written, and where it came to the solution.
var (
	traced = regexp.MustCompile(`(?s)(?:.*\n|^)(Traceback \(most recent call last\):\n.*\n|  File "` + scriptPath + `".*\n)([A-Za-z_][\w.]*)(?:: ([^\n]*))?\s*$`)
	inLine = regexp.MustCompile(`File "` + scriptPath + `", line ([0-9]+)`)
)

// printed is the exception that a script ended with, by what it wrote; nil if it says
// none. The first lines of the script are the setup's.
func (g *grading) printed(stderr string) *exception {
	if len(stderr) > maxTraceback {
		stderr = stderr[len(stderr)-maxTraceback:]
	}
	m := traced.FindStringSubmatchIndex(stderr)
	if m == nil {
		return nil
	}
	e := &exception{Type: stderr[m[4]:m[5]], Traceback: stderr[m[2]:]}
	if m[6] >= 0 {
		e.Message = stderr[m[6]:m[7]]
	}
	if lines := inLine.FindAllStringSubmatch(e.Traceback, -1); len(lines) > 0 {
		n, _ := strconv.Atoi(lines[len(lines)-1][1])
		e.Line = max(n-strings.Count(strings.TrimSuffix(g.source(), g.Tests.Code), "\n"), 0)
	}
	return e
}
