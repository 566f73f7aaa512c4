package shown

import (
	"math"
	"slices"

	"github.com/assay-run/assay/pkg/job"
)

// Part is one part of a bar: from X on, W wide, of 1000.
type Part struct {
	Class, Label string
	N            int64
	X, W         int
}

// Verdicts is a bar of what has become of a batch's jobs: outcomes in their order, then what runs, then what waits.
func Verdicts(b *job.Batch) []Part {
	outcomes := slices.Clone(job.Outcomes)
	for o := range b.Outcomes { // of a release to come
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

// Bar lays parts out beside each other, and leaves out those that are empty. What is there is seen, however little it is.
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

// Infra counts the jobs that ended without saying anything of their programs, and those that ended and were not canceled.
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
