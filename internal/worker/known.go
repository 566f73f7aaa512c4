package worker

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// spokenBy returns the version of the protocol that all dispatchers support. Before the first
// answer it assumes the current one. A dispatcher that does not support it refuses the result, see
// toOlder.
func (w *Worker) spokenBy() int64 {
	if w.answered.Load() == 0 {
		return control.Protocol
	}
	return w.spoken.Load()
}

// downgrade rewrites the outcome of a result for dispatchers of an older protocol version, and
// reports whether it changed anything:
//
//   - before control.ProtocolCompiled, compile_error is failed
//   - before control.ProtocolOutcomes, check_error is failed with score 0, and setup_error is
//     policy_violation
func downgrade(res *job.Result, version int64) bool {
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

// toOlder rewrites a refused result for an older dispatcher. It returns false if there is no older
// form.
func (f *finishing) toOlder() bool {
	var res job.Result
	if json.Unmarshal(f.finish.Result, &res) != nil || !downgrade(&res, control.ProtocolNone) {
		return false
	}
	raw, err := json.Marshal(&res)
	if err != nil {
		return false
	}
	f.finish.Outcome, f.finish.Result = res.Outcome, raw
	return true
}
