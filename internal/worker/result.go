package worker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// storeOutputs moves outputs that are too large for a result to the object store.
func (a *attempt) storeOutputs(ctx context.Context, res *job.Result) (err error) {
	spills := spillsOf(res)
	defer func() {
		for _, s := range spills {
			_ = s.Close()
		}
	}()
	var work toll.Meter // charged to the job, like the work before
	work.Measure(func() { a.outputs, err = a.transfer.Outputs(ctx, a.owner(), res) })
	res.Usage.CPUMS += job.Milliseconds(work.Spent())
	a.timings.CollectMS += job.Milliseconds(a.outputs.Took)
	return err
}

// outputsOf returns all outputs of a result.
func outputsOf(res *job.Result) []*job.Output {
	all := []*job.Output{&res.Stdout, &res.Stderr}
	for i := range res.Steps {
		all = append(all, &res.Steps[i].Stdout, &res.Steps[i].Stderr)
	}
	return all
}

func spillsOf(res *job.Result) (spills []job.Spill) {
	for _, o := range outputsOf(res) {
		if o.Spill != nil {
			spills = append(spills, o.Spill)
		}
	}
	return spills
}

// outputsSize returns the size of all outputs in a result, in bytes of JSON.
func outputsSize(res *job.Result) (n int) {
	for _, o := range outputsOf(res) {
		if o.Spill != nil {
			n += 6 * int(min(o.Bytes, int64(policy.MaxOutput))) // the most that a byte takes in JSON
			continue
		}
		n += job.EncodedSize(o.Text) + base64.StdEncoding.EncodedLen(len(o.Base64))
	}
	for _, c := range res.Output {
		n += job.EncodedSize(c.Text)
	}
	return n
}

// mostResults is the memory for large results and artifacts that are being sent, in bytes. A tenant
// gets half of it.
const mostResults = 64 << 20

// reserve waits for the memory of a large result, which is freed with its lease. It does not wait
// if the attempt was canceled or has lost its lease.
func (a *attempt) reserve(res *job.Result) {
	size := outputsSize(res) + perItem*(len(res.Artifacts)+len(res.Steps))
	if res.Tests != nil {
		size += perItem * len(res.Tests.Cases)
	}
	if res.Value != nil {
		size += len(res.Value.JSON)
	}
	if size <= maxBatchBytes {
		return
	}
	if leave, err := a.memory.Enter(a.lease.ctx, a.claimed.Tenant, 2*size); err == nil {
		context.AfterFunc(a.lease.ctx, leave)
	}
}

// perItem is the approximate size of an artifact, a step or a case in a result, in bytes.
const perItem = 512

// bounded encodes a result of at most job.MaxResult. A larger result ends as OutputLimit. bounded
// first drops values and details of tests, then all but the outcome and the usage.
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
		res.Message = fmt.Sprintf("the result has %d bytes, at most %s are recorded; it is recorded without %s", size, job.MaxResult, left)
		if raw, err = json.Marshal(res); err != nil || len(raw) <= int(job.MaxResult) {
			return raw, err
		}
	}
	return nil, fmt.Errorf("%w: result of %d bytes", job.ErrTooLarge, len(raw))
}

// objectsOf returns the keys of all objects that a result names.
func objectsOf(res *job.Result) (keys []string) {
	for _, a := range res.Artifacts {
		keys = append(keys, a.Object)
	}
	for _, o := range outputsOf(res) {
		if o.Stored != nil {
			keys = append(keys, o.Stored.Object)
		}
	}
	return keys
}

// discardDropped deletes the objects that a result no longer names.
func (a *attempt) discardDropped(ctx context.Context, stored []string, res *job.Result) {
	if left := objectsOf(res); len(left) < len(stored) {
		drop := slices.DeleteFunc(stored, func(key string) bool { return slices.Contains(left, key) })
		a.background.Go(func() { a.transfer.DiscardObjects(ctx, drop) })
	}
}

// withoutValues drops the parts whose size the program controls.
func withoutValues(res *job.Result) string {
	res.Value, res.Display, res.Variables, res.Output, res.Feedback = nil, nil, nil, nil, nil
	if e := res.Exception; e != nil {
		res.Exception = &job.ExceptionInfo{Type: job.ClipMessage(e.Type), Message: job.ClipMessage(e.Message), Line: e.Line, Traceback: job.ClipMessage(e.Traceback)}
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

// withoutAnything keeps the outcome and the usage.
func withoutAnything(res *job.Result) string {
	res.Steps, res.Artifacts, res.Packages, res.Network, res.Exception = nil, nil, nil, nil, nil
	res.Stdout.Text, res.Stderr.Text = job.Edges(res.Stdout.Text, transfer.Edge, "left out"), job.Edges(res.Stderr.Text, transfer.Edge, "left out")
	if res.Tests != nil {
		res.Tests.Cases = []job.CaseResult{}
	}
	return "its steps, values, artifacts and details of tests"
}

// The limits of a record, as its rows show them.
var mostInline, mostResult = job.MaxInline.String(), job.MaxResult.String()

// limits returns the enforcement rows about the size of the record itself.
func (a *attempt) limits() []job.Enforcement {
	how := "outputs above it are kept beside the result: none"
	if a.outputs.N > 0 {
		how = fmt.Sprintf("outputs above it are kept beside the result: %d of %d bytes", a.outputs.N, a.outputs.Bytes)
	}
	return []job.Enforcement{
		{Capability: "output", Requested: mostInline, Applied: mostInline, Mechanism: how, Level: job.LevelRuntime},
		{
			Capability: "result", Requested: mostResult, Applied: mostResult,
			Mechanism: "the worker encodes the result: a larger one ends as output_limit, without its large parts", Level: job.LevelRuntime,
		},
	}
}
