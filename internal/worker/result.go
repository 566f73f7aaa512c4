package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// storeOutputs takes outputs that are too large for a result out of it.
//
// Dispatchers of older releases do not serve what is beside a result. While there are some
// it is inside, as they know it, unless that makes it too large.
func (a *attempt) storeOutputs(ctx context.Context, res *job.Result) (err error) {
	if a.spoken.Load() < control.ProtocolOutputs && outputsSize(res) <= int(job.MaxResult)/2 {
		return nil
	}
	a.outputs, err = a.transfer.Outputs(ctx, a.owner(), res)
	a.timings.CollectMS += job.Milliseconds(a.outputs.Took)
	return err
}

// outputsSize is what all outputs take in a result, in bytes of JSON.
func outputsSize(res *job.Result) int {
	n := job.EncodedSize(res.Stdout.Text) + job.EncodedSize(res.Stderr.Text)
	for _, s := range res.Steps {
		n += job.EncodedSize(s.Stdout.Text) + job.EncodedSize(s.Stderr.Text)
	}
	for _, c := range res.Output {
		n += job.EncodedSize(c.Text)
	}
	return n
}

// bounded encodes a result that is no larger than job.MaxResult. What is larger ends as
// OutputLimit, without what may be large in it: first what the program left, then all
// but how it ended.
func bounded(res *job.Result) (json.RawMessage, error) {
	raw, err := json.Marshal(res)
	if err != nil || len(raw) <= int(job.MaxResult) {
		return raw, err
	}
	size := len(raw)
	for _, cut := range []func(*job.Result) string{withoutValues, withoutAnything} {
		left := cut(res)
		res.Outcome = job.OutputLimit
		res.State = res.Outcome.State()
		res.Message = fmt.Sprintf("the result takes %d bytes, and %s are the most; it is recorded without %s", size, job.MaxResult, left)
		if raw, err = json.Marshal(res); err != nil || len(raw) <= int(job.MaxResult) {
			return raw, err
		}
	}
	return nil, fmt.Errorf("%w: result of %d bytes", job.ErrTooLarge, len(raw))
}

// withoutValues leaves out what is as large as the program wants.
func withoutValues(res *job.Result) string {
	res.Value, res.Display, res.Variables, res.Output, res.Feedback = nil, nil, nil, nil, nil
	if e := res.Exception; e != nil {
		res.Exception = &job.ExceptionInfo{Type: clip(e.Type), Message: clip(e.Message), Line: e.Line, Traceback: clip(e.Traceback)}
	}
	if t := res.Tests; t != nil {
		short := *t
		short.Cases = make([]job.CaseResult, len(t.Cases))
		for i, c := range t.Cases {
			c.Got, c.Expected, c.Message, c.Stderr = "", "", "", ""
			short.Cases[i] = c
		}
		res.Tests = &short
	}
	return "its value, variables, figures and details of tests"
}

// withoutAnything leaves how it ended and what it used.
func withoutAnything(res *job.Result) string {
	res.Steps, res.Artifacts, res.Packages, res.Network, res.Exception = nil, nil, nil, nil, nil
	res.Stdout.Text, res.Stderr.Text = job.Edges(res.Stdout.Text, transfer.Edge, "left out"), job.Edges(res.Stderr.Text, transfer.Edge, "left out")
	if res.Tests != nil {
		res.Tests.Cases = []job.CaseResult{}
	}
	return "its steps, values, artifacts and details of tests"
}

// The limits of a record, as its rows say them.
var mostInline, mostResult = job.MaxInline.String(), job.MaxResult.String()

// limits are the rows of the record about its own size.
func (a *attempt) limits() []job.Enforcement {
	how := "outputs above it are kept beside the result: none"
	if a.outputs.N > 0 {
		how = fmt.Sprintf("outputs above it are kept beside the result: %d of %d bytes", a.outputs.N, a.outputs.Bytes)
	}
	return []job.Enforcement{
		{Capability: "output", Requested: mostInline, Applied: mostInline, Mechanism: how, Level: job.LevelRuntime},
		{
			Capability: "result", Requested: mostResult, Applied: mostResult,
			Mechanism: "the worker encodes the result: a larger one ends as output_limit, without what is large", Level: job.LevelRuntime,
		},
	}
}
