package worker

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// olderOutcomes reports whether there are dispatchers that do not know all outcomes. Before
// an answer says so there are none: they refuse what they do not know, and see toOlder.
func (w *Worker) olderOutcomes() bool {
	return w.answered.Load() != 0 && w.spoken.Load() < control.ProtocolOutcomes
}

// asKnown says how a result ended as releases before control.ProtocolOutcomes do: tests that
// fail by themselves are a failure with a score of nothing, and what cannot be had was
// refused. It reports whether that is another thing than what the result said.
func asKnown(res *job.Result) bool {
	switch res.Outcome {
	case job.SetupError:
		res.Outcome = job.PolicyViolation
	case job.CheckError:
		res.Outcome = job.Failed
	default:
		return false
	}
	if t := res.Tests; t != nil {
		short := *t
		short.Cases, short.Score, short.Failed, short.Errors = make([]job.CaseResult, len(t.Cases)), new(float64), t.Failed+t.Errors, 0
		for i, c := range t.Cases {
			if c.Outcome == job.CheckError {
				c.Outcome = job.Failed
			}
			short.Cases[i] = c
		}
		res.Tests = &short
	}
	return true
}

// toOlder makes of a result that was refused one that an older dispatcher takes, if there
// is another way to say it.
func (f *finishing) toOlder() bool {
	var res job.Result
	if json.Unmarshal(f.finish.Result, &res) != nil || !asKnown(&res) {
		return false
	}
	raw, err := json.Marshal(&res)
	if err != nil {
		return false
	}
	f.finish.Outcome, f.finish.Result = res.Outcome, raw
	return true
}
