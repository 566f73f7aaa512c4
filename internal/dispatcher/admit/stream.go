package admit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Sink takes one chunk of admitted jobs, in the order of the request.
type Sink func(jobs []store.NewJob) error

// A chunk ends at chunkJobs jobs or chunkBytes bytes, whichever comes first. Each chunk is one statement of the
// store, and bounds the memory of a request.
const (
	chunkJobs  = 1000
	chunkBytes = 4 << 20
	// maxLine is the longest line that is read. It is above the largest job, so that the error for a slightly larger
	// job can name the field.
	maxLine = 4 * int(job.MaxSpec)
)

// maxObjects bounds the jobs of a batch that is one JSON object. In memory a job takes many times its encoded size.
const maxObjects = 100_000

// DecodeBatch decodes a batch that is one JSON object; its jobs stay encoded. It returns job.ErrTooLarge for more
// than maxObjects jobs.
func DecodeBatch(raw []byte) (api.BatchRequest, error) {
	var req api.BatchRequest
	// A smaller body has room only for invalid jobs, which decoding rejects.
	if len(raw) > 20*maxObjects && job.CountElements(raw, "jobs", maxObjects) > maxObjects {
		return req, fmt.Errorf("%w: %w", job.ErrTooLarge, job.Invalid("jobs", "has more than %d jobs; send them as lines, application/x-ndjson", maxObjects))
	}
	err := job.Decode(raw, "", &req)
	return req, err
}

// Objects admits jobs that are already in memory, and returns how many sink took. Errors name a job by its index.
func (in *Intake) Objects(ctx context.Context, jobs []json.RawMessage, sink Sink) (int64, error) {
	place := func(err error, n int) error {
		return reposition(err, func(f *job.FieldError) { f.Field = join(fmt.Sprintf("jobs[%d]", n-1), f.Field) })
	}
	return in.pipe(ctx, place, sink, func(emit func(*chunk) error) error {
		c := &chunk{first: 1}
		for i, raw := range jobs {
			c.add(raw)
			if c.full() {
				if err := emit(c); err != nil {
					return err
				}
				c = &chunk{first: i + 2}
			}
		}
		return emit(c)
	})
}

// Lines admits NDJSON, one job per line, and returns how many sink took. It skips empty lines. Errors name the first
// bad line. It keeps only a few chunks of r in memory.
func (in *Intake) Lines(ctx context.Context, r io.Reader, sink Sink) (int64, error) {
	place := func(err error, n int) error {
		return reposition(err, func(f *job.FieldError) { f.Line = n })
	}
	return in.pipe(ctx, place, sink, func(emit func(*chunk) error) error { return split(r, emit) })
}

// chunk is a sequence of encoded jobs.
type chunk struct {
	first int // number of its first line
	data  []byte
	ends  []int
	ids   []job.ID // of its jobs, drawn in the order of the lines, so that the jobs of a batch sort by it
	jobs  []store.NewJob
	err   error
	done  chan struct{}
}

func (c *chunk) add(raw []byte) {
	c.data = append(c.data, raw...)
	c.ends = append(c.ends, len(c.data))
}

func (c *chunk) full() bool { return len(c.ends) >= chunkJobs || len(c.data) >= chunkBytes }

// split cuts r into chunks of lines.
func split(r io.Reader, emit func(*chunk) error) error {
	lines := bufio.NewReaderSize(r, 256<<10)
	c := &chunk{first: 1}
	for n := 1; ; n++ {
		err := c.readLine(lines)
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("%w: %w", job.ErrTooLarge,
				&job.FieldError{Line: n, Problem: fmt.Sprintf("the job is larger than %s; upload inputs with PUT /v1/blobs", job.MaxSpec)})
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("%w: after line %d: %w", job.ErrInvalid, n-1, err)
		}
		if err == io.EOF || c.full() {
			if err := emit(c); err != nil {
				return err
			}
			c = &chunk{first: n + 1}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// readLine appends one line to c. It returns bufio.ErrTooLong beyond maxLine. The last line needs no newline.
func (c *chunk) readLine(lines *bufio.Reader) error {
	start := len(c.data)
	for {
		part, err := lines.ReadSlice('\n')
		c.data = append(c.data, part...)
		if len(c.data)-start > maxLine {
			return bufio.ErrTooLong
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == nil || len(c.data) > start {
			c.ends = append(c.ends, len(c.data))
		}
		return err
	}
}

// pipe runs the stages: one goroutine reads chunks, several decode them, and one passes them to sink in order. The
// first error in that order ends all stages and is returned.
func (in *Intake) pipe(ctx context.Context, place func(error, int) error, sink Sink, source func(emit func(*chunk) error) error) (int64, error) {
	g, ctx := errgroup.WithContext(ctx)
	work, ordered := make(chan *chunk), make(chan *chunk, runtime.GOMAXPROCS(0))
	g.Go(func() error {
		defer close(work)
		defer close(ordered)
		err := source(func(c *chunk) error {
			c.done, c.ids = make(chan struct{}), make([]job.ID, len(c.ends))
			for i := range c.ids {
				c.ids[i] = job.NewID()
			}
			return errors.Join(send(ctx, ordered, c), send(ctx, work, c))
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		// Errors of earlier lines come first.
		end := &chunk{err: err, done: make(chan struct{})}
		close(end.done)
		return send(ctx, ordered, end)
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for c := range work {
				in.decode(ctx, c, place)
			}
			return nil
		})
	}
	var total int64
	g.Go(func() error {
		for c := range ordered {
			select {
			case <-c.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if c.err != nil {
				return c.err
			}
			if len(c.jobs) == 0 {
				continue
			}
			if err := sink(c.jobs); err != nil {
				return err
			}
			total += int64(len(c.jobs))
		}
		return nil
	})
	err := g.Wait()
	return total, err
}

func send(ctx context.Context, to chan<- *chunk, c *chunk) error {
	select {
	case to <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decode admits the jobs of one chunk, up to the first bad one.
func (in *Intake) decode(ctx context.Context, c *chunk, place func(error, int) error) {
	defer close(c.done)
	c.jobs = make([]store.NewJob, 0, len(c.ends))
	start := 0
	for i, end := range c.ends {
		line := bytes.TrimSpace(c.data[start:end])
		start = end
		if len(line) == 0 {
			continue
		}
		j, err := in.job(ctx, line, c.ids[i])
		if err != nil {
			c.err = place(err, c.first+i)
			return
		}
		c.jobs = append(c.jobs, j)
	}
	c.data = nil // the jobs do not share it
}

// reposition returns err with every FieldError in it moved. It returns other errors unchanged.
func reposition(err error, move func(*job.FieldError)) error {
	fields := api.FieldErrors(err)
	if len(fields) == 0 {
		return err
	}
	out := &located{kind: job.ErrInvalid}
	for _, kind := range []error{job.ErrTooLarge, job.ErrRefused, job.ErrTooMany} {
		if errors.Is(err, kind) {
			out.kind = kind
		}
	}
	for _, f := range fields {
		moved := *f
		move(&moved)
		out.fields = append(out.fields, &moved)
	}
	return out
}

// located is the error of one job of a batch.
type located struct {
	kind   error
	fields []*job.FieldError
}

func (e *located) Error() string {
	text := make([]string, len(e.fields))
	for i, f := range e.fields {
		text[i] = f.Error()
	}
	return strings.Join(text, "; ")
}

func (e *located) Unwrap() []error {
	out := []error{e.kind}
	for _, f := range e.fields {
		out = append(out, f)
	}
	return out
}

func join(at, field string) string {
	if field == "" || field[0] == '[' {
		return at + field
	}
	return at + "." + field
}
