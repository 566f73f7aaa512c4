package policy

import "github.com/assay-run/assay/pkg/job"

// Use is the kind of program under a policy. Some capabilities are enforced for some kinds only, or
// by a different mechanism.
type Use string

// The uses. job.Program.Kind returns UsePython to UseCode.
const (
	UseAny     Use = ""        // unknown: the kind with the most enforcement
	UsePython  Use = "python"  // a snippet
	UseCommand Use = "command" // argv, or steps
	UseTests   Use = "tests"   // a solution and its tests
	UseCode    Use = "code"    // a program in a language of the catalogue, or a solution in one
	UseSession Use = "session" // a live interpreter
	UseShell   Use = "shell"   // a live shell
)

// Uses lists every Use.
var Uses = []Use{UseAny, UsePython, UseCommand, UseTests, UseCode, UseSession, UseShell}

// UseOf returns the use of a session of this kind.
func UseOf(k job.SessionKind) Use {
	if k == job.SessionShell {
		return UseShell
	}
	return UseSession
}

// UseOfProgram returns the use of a program.
func UseOfProgram(p job.Program) Use {
	if t := p.Tests; t != nil && t.Language != "" {
		return UseCode
	}
	return Use(p.Kind())
}

// Check returns an error, under strict enforcement, for capabilities that no worker enforces for
// this kind of program. Errors are *job.FieldError.
func (p *Policy) Check(u Use) error {
	if p.Enforce != Strict {
		return nil
	}
	for c := range p.rows() {
		if reason, ok := c.unfit[u]; ok {
			return job.Invalid("policy."+c.name, `%s; leave it out, or set "enforce": "report" to run without it`, reason)
		}
	}
	return nil
}
