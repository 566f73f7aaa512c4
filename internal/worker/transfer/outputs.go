package transfer

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// Edge is the size of the head and of the tail of a stored output that stay in the result, in bytes
// of JSON.
const Edge = int(job.MaxInline) / 4

// mostEdges bounds the heads and tails of all stored outputs of steps in the result, in bytes of
// JSON.
const mostEdges = 2 << 20

// Outputs counts the outputs that an attempt has stored.
type Outputs struct {
	Tried bool // after an error, some may be stored
	N     int
	Bytes int64
	Took  time.Duration
}

// Outputs moves outputs that are too large for a result to the object store, and leaves their heads
// and tails. Everything after the worker costs in proportion to the result: messages, statements,
// rows and pages. An error is an infrastructure failure: the store is unavailable.
func (s *Store) Outputs(ctx context.Context, o Owner, res *job.Result) (out Outputs, err error) {
	edge := min(Edge, mostEdges/(4*max(len(res.Steps), 1)))
	put := func(text *job.Output, stream string, step int) {
		if err == nil {
			err = s.output(ctx, o, text, stream, step, edge, &out)
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
		res.Output = nil // the streams are stored
	}
	return out, nil
}

// output stores one output, unless it is small.
func (s *Store) output(ctx context.Context, o Owner, text *job.Output, stream string, step, edge int, out *Outputs) error {
	if text.Spill == nil && fitsInline(text) {
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
	var ends edges
	info, err := retryPut(ctx, func() (object.Info, error) {
		ends = edges{}
		return s.Objects.Put(ctx, key, io.TeeReader(open(text), &ends))
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", stream, err)
	}
	out.N, out.Bytes, out.Took = out.N+1, out.Bytes+info.Bytes, out.Took+time.Since(began)
	text.Stored = &job.StoredOutput{Bytes: info.Bytes, SHA256: info.SHA256, Object: key}
	text.Text, text.Spill, text.Base64 = ends.text(edge), nil, nil
	return nil
}

// fitsInline reports whether a result has room for an output.
func fitsInline(o *job.Output) bool {
	exact := base64.StdEncoding.EncodedLen(len(o.Base64))
	return 6*len(o.Text)+exact < int(job.MaxInline) || job.EncodedSize(o.Text)+exact <= int(job.MaxInline) // no byte takes more than 6
}

// open reads the bytes of a whole output.
func open(o *job.Output) io.Reader {
	if o.Spill != nil {
		return o.Spill.Exact()
	}
	return bytes.NewReader(o.Exact())
}

// edges keeps the first and the last Edge bytes of a stream.
type edges struct {
	head, tail []byte // the tail is the last part of the bytes after the head; up to 2*Edge long
	total      int64
}

// Write implements io.Writer. It never fails.
func (e *edges) Write(p []byte) (int, error) {
	n := len(p)
	e.total += int64(n)
	first := min(Edge-len(e.head), n)
	e.head = append(e.head, p[:first]...)
	if p = p[first:]; len(p) > Edge {
		p = p[len(p)-Edge:]
	}
	e.tail = append(e.tail, p...)
	if len(e.tail) > 2*Edge {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-Edge:]...)
	}
	return n, nil
}

// text returns the two ends of the text, with a marker between.
func (e *edges) text(edge int) string {
	if int64(len(e.head)+len(e.tail)) == e.total {
		return job.Edges(valid(slices.Concat(e.head, e.tail)), edge, elsewhere)
	}
	return job.EdgesOf(valid(e.head), valid(e.tail), e.total, edge, elsewhere)
}

// valid replaces invalid UTF-8 with U+FFFD. job.EdgesOf drops runes that an edge cuts.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// elsewhere is the part of the marker that names the place of the rest.
const elsewhere = "in the stored output only"
