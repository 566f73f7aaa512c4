package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

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
