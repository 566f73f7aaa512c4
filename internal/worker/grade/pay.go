package grade

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// bill is the worker's own work for a grading: to decode frames, to compare outputs and values, and to relay what two programs
// write to each other. A solution decides how much work that is, so its job pays for it.
type bill struct {
	toll toll.Meter
	paid time.Duration // of that, by the job
}

// measured charges the job for f.
func (g *grading) measured(f func()) {
	g.toll.Measure(f)
	g.pay()
}

// pay charges the job for the work since the last call.
func (g *grading) pay() {
	more := g.toll.Spent() - g.paid
	g.paid += more
	g.cpu.Spend(more)
	g.report.Usage.CPUMS += job.Milliseconds(more)
}
