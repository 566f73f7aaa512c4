package grade

import (
	"context"

	"github.com/assay-run/assay/pkg/job"
)

// openShared opens one sandbox for both the check and the solution.
func (r *relay) openShared(ctx context.Context, first *checkFrame) (err error) {
	first.Code = r.Tests.Code
	if rules := &r.Attempt.Plan.Policy.Imports; rules.Any() {
		first.Imports = rules
	}
	r.check, err = r.open(ctx, sharedSide, r.left()+verdictGrace, nil)
	r.told = true
	return err
}

// unloadedShared records why the solution could not be loaded into the check's process.
func (r *relay) unloadedShared(f *message) {
	switch {
	case f.Stage == "imports":
		r.unloaded = &job.CaseResult{Outcome: job.PolicyViolation, Message: short("policy.imports: "+f.Problem, "")}
	case f.Exception != nil:
		r.unloaded = &job.CaseResult{Outcome: job.Exception, Message: unloadedMessage(f.Stage, f.Exception)}
		r.note(f.Exception)
	default:
		r.unloaded = &job.CaseResult{Outcome: job.Failed, Message: "the solution cannot be loaded"}
	}
}

// skipRest records the tests that a broken check did not run. In a shared process the solution may
// have ended it.
func (r *relay) skipRest() {
	if r.side != sharedSide {
		return
	}
	for range r.rest {
		r.verdicts = append(r.verdicts, job.CaseResult{Name: "check", Outcome: job.Failed, Message: "not run: a test before it did not end"})
	}
}
