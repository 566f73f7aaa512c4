package worker

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// spokenBy is the version of the protocol that all dispatchers know. Before an answer says so they know all of it: they
// refuse what they do not know, and see toOlder.
func (w *Worker) spokenBy() int64 {
	if w.answered.Load() == 0 {
		return control.Protocol
	}
	return w.spoken.Load()
}

// asKnown says how a result ended as releases that speak a version of the protocol do. Before control.ProtocolCompiled a
// program that does not compile has failed; before control.ProtocolOutcomes tests that
// fail by themselves are a failure with a score of nothing, and what cannot be had was
// refused. It reports whether that is another thing than what the result said.
func asKnown(res *job.Result, version int64) bool {
	switch {
	case res.Outcome == job.CompileError && version < control.ProtocolCompiled:
		res.Outcome = job.Failed
		return true
	case res.Outcome == job.SetupError && version < control.ProtocolOutcomes:
		res.Outcome = job.PolicyViolation
	case res.Outcome == job.CheckError && version < control.ProtocolOutcomes:
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
	if json.Unmarshal(f.finish.Result, &res) != nil || !asKnown(&res, control.ProtocolNone) {
		return false
	}
	raw, err := json.Marshal(&res)
	if err != nil {
		return false
	}
	f.finish.Outcome, f.finish.Result = res.Outcome, raw
	return true
}
