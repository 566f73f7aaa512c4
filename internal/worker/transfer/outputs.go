package transfer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// Edge is how much of the head, and how much of the tail, of a stored output stays in
// the result, in bytes of JSON.
const Edge = int(job.MaxInline) / 4

// Outputs is what an attempt has stored of what its program wrote.
type Outputs struct {
	Tried bool // part of it may be there after an error
	N     int
	Bytes int64
	Took  time.Duration
}

// Outputs takes outputs that are too large for a result to the object store, and leaves
// their heads and tails. Everything after the worker costs what a result has: messages,
// statements, rows and pages. The error is ours: the store is away.
func (s *Store) Outputs(ctx context.Context, o Owner, res *job.Result) (out Outputs, err error) {
	put := func(text *job.Output, stream string, step int) {
		if err == nil {
			err = s.output(ctx, o, text, stream, step, &out)
		}
	}
	put(&res.Stdout, "stdout", object.WholeOutput)
	put(&res.Stderr, "stderr", object.WholeOutput)
	for i := range res.Steps {
		put(&res.Steps[i].Stdout, "stdout", i)
		put(&res.Steps[i].Stderr, "stderr", i)
	}
	if err != nil {
		return out, err
	}
	chunks := 0
	for _, c := range res.Output {
		chunks += job.EncodedSize(c.Text) + len(`{"stream":"stdout","text":},`)
	}
	if chunks > int(job.MaxInline) {
		res.Output = nil // the streams themselves are there
	}
	return out, nil
}

// output stores one, unless it is small.
func (s *Store) output(ctx context.Context, o Owner, text *job.Output, stream string, step int, out *Outputs) error {
	if 6*len(text.Text) < int(job.MaxInline) || job.EncodedSize(text.Text) <= int(job.MaxInline) { // no byte takes more than 6
		return nil
	}
	began := time.Now()
	key, err := object.OutputKey(o.Tenant, o.Job, o.Lease, stream, step)
	if err != nil {
		return fmt.Errorf("store %s: %w", stream, err)
	}
	out.Tried = true
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	info, err := retryPut(ctx, func() (object.Info, error) { return s.Objects.Put(ctx, key, strings.NewReader(text.Text)) })
	if err != nil {
		return fmt.Errorf("store %s: %w", stream, err)
	}
	out.N, out.Bytes, out.Took = out.N+1, out.Bytes+info.Bytes, out.Took+time.Since(began)
	text.Stored = &job.StoredOutput{Bytes: info.Bytes, SHA256: info.SHA256, Object: key}
	text.Text = job.Edges(text.Text, Edge, "in the stored output only")
	return nil
}
