package display

import (
	"math"
	"slices"

	"github.com/assay-run/assay/pkg/job"
)

// Part is a part of a bar of width 1000. It begins at X and is W wide.
type Part struct {
	Class, Label string
	N            int64
	X, W         int
}

// Verdicts returns a bar of a batch's jobs: outcomes in their order, then running and waiting jobs.
func Verdicts(b *job.Batch) []Part {
	outcomes := slices.Clone(job.Outcomes)
	for o := range b.Outcomes { // outcomes of a later release
		if !slices.Contains(outcomes, o) {
			outcomes = append(outcomes, o)
		}
	}
	slices.SortStableFunc(outcomes, func(x, y job.Outcome) int { return rank(x) - rank(y) })
	var parts []Part
	for _, o := range outcomes {
		parts = append(parts, Part{Class: Kind(o), Label: Words(o), N: b.Outcomes[o]})
	}
	parts = append(parts, Part{Class: "run", Label: "running", N: b.Counts[job.Running]},
		Part{Class: "wait", Label: "waiting", N: b.Counts[job.Queued] + b.Counts[job.Dispatched]})
	return Bar(parts)
}

func rank(o job.Outcome) int {
	return slices.Index([]string{"good", "bad", "stop", "infra", "off"}, Kind(o))
}

// Bar lays out the parts side by side and omits empty ones. Each has a visible minimum width.
func Bar(parts []Part) []Part {
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.N <= 0 })
	var total, seen float64
	for _, p := range parts {
		total += float64(p.N)
	}
	least := 4.0
	for _, p := range parts {
		seen += max(float64(p.N)/total*1000, least)
	}
	at := 0.0
	for i, p := range parts {
		w := max(float64(p.N)/total*1000, least) / seen * 1000
		parts[i].X, parts[i].W = int(math.Round(at)), int(math.Round(at+w))-int(math.Round(at))
		at += w
	}
	return parts
}

// Infra returns the number of jobs that ended without a verdict on their program, and of jobs that ended. It does not
// count canceled jobs.
func Infra(b *job.Batch) (infra, ended int64) {
	for o, n := range b.Outcomes {
		if o == job.OutcomeCanceled {
			continue
		}
		ended += n
		if !o.OfProgram() {
			infra += n
		}
	}
	return infra, ended
}
