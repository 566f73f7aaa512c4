package policy

import "github.com/assay-run/assay/pkg/job"

// Use is the kind of program that runs under a policy. Some capabilities are
// enforced for some kinds only, or by something else.
type Use string

// The uses. The first three are what job.Program.Kind returns.
const (
	UseAny     Use = ""        // not known yet: whatever most is enforced for
	UsePython  Use = "python"  // a snippet
	UseCommand Use = "command" // argv, or steps
	UseTests   Use = "tests"   // a solution and what grades it
	UseSession Use = "session" // a live interpreter
	UseShell   Use = "shell"   // a live shell
)

// Uses lists every Use.
var Uses = []Use{UseAny, UsePython, UseCommand, UseTests, UseSession, UseShell}

// UseOf returns the use of a session of this kind.
func UseOf(k job.SessionKind) Use {
	if k == job.SessionShell {
		return UseShell
	}
	return UseSession
}

// Check refuses, under strict enforcement, what of a policy no worker enforces for
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
