package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
)

// edge is how much of the head, and how much of the tail, of a stored output stays in
// the result, in bytes of JSON.
const edge = int(job.MaxInline) / 4

// storeOutputs takes outputs that are too large for a result to the object store, and
// leaves their heads and tails. Everything after the worker costs what a result has:
// messages, statements, rows and pages. The error is ours: the store is away.
//
// Dispatchers of older releases do not serve what is beside a result. While there are some
// it is inside, as they know it, unless that makes it too large.
func (a *attempt) storeOutputs(ctx context.Context, res *job.Result) error {
	if a.spoken.Load() < queue.ProtocolOutputs && outputsSize(res) <= int(job.MaxResult)/2 {
		return nil
	}
	if err := a.storeOutput(ctx, &res.Stdout, "stdout", object.WholeOutput); err != nil {
		return err
	}
	if err := a.storeOutput(ctx, &res.Stderr, "stderr", object.WholeOutput); err != nil {
		return err
	}
	for i := range res.Steps {
		if err := a.storeOutput(ctx, &res.Steps[i].Stdout, "stdout", i); err != nil {
			return err
		}
		if err := a.storeOutput(ctx, &res.Steps[i].Stderr, "stderr", i); err != nil {
			return err
		}
	}
	chunks := 0
	for _, c := range res.Output {
		chunks += job.EncodedSize(c.Text) + len(`{"stream":"stdout","text":},`)
	}
	if chunks > int(job.MaxInline) {
		res.Output = nil // the streams themselves are there
	}
	return nil
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

// storeOutput stores one, unless it is small.
func (a *attempt) storeOutput(ctx context.Context, o *job.Output, stream string, step int) error {
	if 6*len(o.Text) < int(job.MaxInline) || job.EncodedSize(o.Text) <= int(job.MaxInline) { // no byte takes more than 6
		return nil
	}
	began := time.Now()
	key, err := object.OutputKey(a.claimed.Tenant, a.lease.Job, a.lease.Lease, stream, step)
	if err != nil {
		return fmt.Errorf("store %s: %w", stream, err)
	}
	a.outputs.any = true // before it is tried: part of it may be there after an error
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	info, err := putAgain(ctx, a.Objects, key, o.Text)
	if err != nil {
		return fmt.Errorf("store %s: %w", stream, err)
	}
	a.outputs.n, a.outputs.bytes = a.outputs.n+1, a.outputs.bytes+info.Bytes
	a.timings.CollectMS += since(began)
	o.Stored = &job.StoredOutput{Bytes: info.Bytes, SHA256: info.SHA256, Object: key}
	o.Text = job.Edges(o.Text, edge, "in the stored output only")
	return nil
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
	res.Stdout.Text, res.Stderr.Text = job.Edges(res.Stdout.Text, edge, "left out"), job.Edges(res.Stderr.Text, edge, "left out")
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
	if a.outputs.n > 0 {
		how = fmt.Sprintf("outputs above it are kept beside the result: %d of %d bytes", a.outputs.n, a.outputs.bytes)
	}
	return []job.Enforcement{
		{Capability: "output", Requested: mostInline, Applied: mostInline, Mechanism: how, Level: job.LevelRuntime},
		{
			Capability: "result", Requested: mostResult, Applied: mostResult,
			Mechanism: "the worker encodes the result: a larger one ends as output_limit, without what is large", Level: job.LevelRuntime,
		},
	}
}

// putAgain uploads what is in memory, again if the store is away.
func putAgain(ctx context.Context, objects Objects, key, data string) (object.Info, error) {
	return retryPut(ctx, func() (object.Info, error) { return objects.Put(ctx, key, strings.NewReader(data)) })
}
