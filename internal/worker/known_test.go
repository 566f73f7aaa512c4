package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// unsolvable reports tests that failed by themselves.
func unsolvable(r *job.Result) {
	r.Outcome = job.CheckError
	r.Tests = &job.TestsResult{Total: 3, Passed: 1, Failed: 1, Errors: 1, Cases: []job.CaseResult{
		{Passed: true, Outcome: job.Succeeded}, {Outcome: job.Failed}, {Outcome: job.CheckError}}}
}

// Dispatchers of an older release receive only outcomes that they support.
func TestOutcomesForOlderDispatchers(t *testing.T) {
	leftFor(t, control.ProtocolOutputs, unsolvable, func(_ *bench, res job.Result) {
		r := res.Tests
		if res.Outcome != job.Failed || r.Failed != 2 || r.Errors != 0 || r.Score == nil || *r.Score != 0 || r.Cases[2].Outcome != job.Failed {
			t.Errorf("%s, %+v", res.Outcome, r)
		}
	})
	leftFor(t, control.ProtocolOutcomes, unsolvable, func(_ *bench, res job.Result) {
		if r := res.Tests; res.Outcome != job.CheckError || r.Errors != 1 || r.Score != nil || r.Cases[2].Outcome != job.CheckError {
			t.Errorf("%s, %+v", res.Outcome, r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.speaks = control.ProtocolOutputs
		b := start(t, f)
		b.heard()
		spec := script("exit=0")
		spec.Image = "no-such-image"
		if res := b.recorded(b.submit(t, spec)); res.Outcome != job.PolicyViolation {
			t.Errorf("%s: %s", res.Outcome, res.Message)
		}
	})
}

// unbuilt is a runtime whose environments cannot be built.
type unbuilt struct{ runtime.Runtime }

func (unbuilt) Acquire(context.Context, runtime.Key) (runtime.Slot, error) {
	return nil, fmt.Errorf("acquire: %w", &runtime.BuildError{Message: "pip failed: no matching distribution found for nonesuch"})
}

// Missing packages are never the program's fault.
func TestPackagesThatCannotBeHad(t *testing.T) {
	for name, spec := range map[string]job.Spec{
		"a snippet":  script("exit=0"),
		"a solution": {Image: "python", Program: job.Program{Tests: &job.Tests{Code: "def f(): pass", Function: "f", Cases: make([]job.Case, 1)}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, newFleet(), func(_ *Config, p *Parts) { p.Runtime = unbuilt{p.Runtime} })
			if res := b.recorded(b.submit(t, spec)); res.Outcome != job.SetupError || res.Outcome.OfProgram() || !strings.Contains(res.Message, "policy.packages: pip failed") {
				t.Errorf("%s: %s: %s", name, res.Outcome, res.Message)
			}
		})
	}
}

// older is a fleet with a returned dispatcher of an older release, since the last heartbeat: it
// refuses unknown outcomes.
type older struct{ *fleet }

func (o older) Finish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	for _, f := range r.Finishes {
		if f.Outcome == job.CheckError || f.Outcome == job.SetupError {
			return control.FinishReply{}, fmt.Errorf("%w: job %s: outcome %q", job.ErrInvalid, f.Job, f.Outcome)
		}
	}
	return o.fleet.Finish(ctx, r)
}

// A result that is refused for its outcome is sent again with an older outcome. It is recorded, and
// its job does not run again.
func TestRefusedOutcomesAreSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), func(_ *Config, p *Parts) {
			p.Control, p.Runtime = older{p.Control.(*fleet)}, leaving{p.Runtime, unsolvable}
		})
		id := b.submit(t, script("exit=0"))
		if res := b.recorded(id); res.Outcome != job.Failed || b.row(id).claims != 1 || len(b.row(id).releases) != 0 {
			t.Errorf("%s, %+v", res.Outcome, b.row(id))
		}
	})
}
