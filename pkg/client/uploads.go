package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// A chunk of an upload ends with the line that reaches one of these sizes. They are below the
// fleet's limit, so that no line has to be taken back, and keep retries cheap.
const (
	chunkLines = 10_000
	chunkBytes = 8 << 20
)

// dropTime limits the time to drop an upload that will not be sealed.
const dropTime = 5 * time.Second

// Upload submits one job for each line of r (JSON Lines), all or none, like SubmitBatch, but in
// chunks. It reads r once and, after an error, resends only the current chunk for as long as
// WithPatience allows. With a Key, a later call, even of another process, continues an interrupted
// one.
func (c *Client) Upload(ctx context.Context, o BatchOptions, r io.Reader) (*job.Batch, error) {
	u, err := c.openUpload(ctx, o)
	if err != nil {
		return nil, err
	}
	total, err := c.putChunks(ctx, u.ID, r)
	var b *job.Batch
	if err == nil {
		b, err = c.sealUpload(ctx, u.ID, total)
	}
	if err != nil && (o.Key == "" || ctx.Err() == nil && !passing(err)) {
		c.dropUpload(ctx, u.ID)
	}
	return b, err
}

func (c *Client) openUpload(ctx context.Context, o BatchOptions) (u api.Upload, err error) {
	rq, err := post("/v1/uploads", nil, api.UploadRequest{
		Name: o.Name, Labels: o.Labels, Callback: o.Callback, Lease: job.Duration(o.Lease), LabelCaps: o.LabelCaps, Defaults: o.Defaults,
	})
	if err != nil {
		return u, err
	}
	if o.Key != "" {
		rq.header.Set(api.HeaderIdempotencyKey, o.Key)
	}
	_, err = c.json(ctx, rq, &u)
	return u, err
}

// putChunks sends all of r and returns the number of jobs in the upload.
func (c *Client) putChunks(ctx context.Context, id job.ID, r io.Reader) (total int64, err error) {
	lines, u := &chunks{r: bufio.NewReaderSize(r, 256<<10)}, api.Upload{}
	for n := int64(0); ; n++ {
		chunk, before, err := lines.next()
		switch {
		case err != nil:
			return 0, err
		case chunk == nil && n == 0:
			return 0, job.Invalid("jobs", "a batch has at least one job")
		case chunk == nil && u.NextChunk != n:
			return 0, fmt.Errorf("%w: %d chunks have been uploaded under this key, and this input has %d", job.ErrKeyUsed, u.NextChunk, n)
		case chunk == nil:
			return u.Jobs, nil
		}
		rq := call{method: http.MethodPut, path: uploadPath(id) + "/chunks/" + strconv.FormatInt(n, 10), header: http.Header{}}
		rq.header.Set("Content-Type", api.NDJSON)
		rq.body = func() (io.Reader, error) { return bytes.NewReader(chunk), nil }
		if _, err := c.json(ctx, rq, &u); err != nil {
			return 0, inFile(err, before)
		}
	}
}

// chunks divides lines into chunks.
type chunks struct {
	r     *bufio.Reader
	lines int // lines read so far
}

// next returns the next chunk, with at least one line that is not empty, and the number of lines
// before it. At the end it returns nil.
func (c *chunks) next() (chunk []byte, before int, err error) {
	before = c.lines
	for jobs := 0; err == nil && jobs < chunkLines && len(chunk) < chunkBytes; {
		start := len(chunk)
		if chunk, err = c.line(chunk); err != nil && err != io.EOF {
			return nil, 0, err
		}
		if len(bytes.TrimSpace(chunk[start:])) > 0 {
			jobs++
		}
		if jobs == 0 {
			chunk, before = nil, c.lines
		}
	}
	return chunk, before, nil
}

// line appends the next line.
func (c *chunks) line(chunk []byte) ([]byte, error) {
	c.lines++
	for {
		part, err := c.r.ReadSlice('\n')
		if chunk = append(chunk, part...); len(chunk) > job.MaxChunk {
			return nil, fmt.Errorf("%w: line %d is longer than any job may be", job.ErrTooLarge, c.lines)
		}
		switch err {
		case bufio.ErrBufferFull:
		case nil, io.EOF:
			return chunk, err
		default:
			return nil, fmt.Errorf("read input: %w", err)
		}
	}
}

// inFile converts line numbers in err from the chunk to the whole file.
func inFile(err error, before int) error {
	out := &fileError{error: err}
	for _, f := range api.FieldErrors(err) {
		moved := *f
		if moved.Line > 0 {
			moved.Line += before
		}
		out.fields = append(out.fields, &moved)
	}
	if len(out.fields) == 0 {
		return err
	}
	return out
}

// fileError is an error in lines of a file.
type fileError struct {
	error
	fields []*job.FieldError
}

func (e *fileError) Error() string {
	text := make([]string, len(e.fields))
	for i, f := range e.fields {
		text[i] = f.Error()
	}
	return strings.Join(text, "; ")
}

func (e *fileError) Unwrap() []error {
	var out []error
	for _, f := range e.fields { // converted before those of the chunk
		out = append(out, f)
	}
	return append(out, e.error)
}

func (c *Client) sealUpload(ctx context.Context, id job.ID, total int64) (*job.Batch, error) {
	rq, err := post(uploadPath(id)+"/seal", nil, api.SealRequest{Jobs: &total})
	if err != nil {
		return nil, err
	}
	var b job.Batch
	_, err = c.json(ctx, rq, &b)
	return &b, err
}

// dropUpload tries to drop an upload for a short time. If it fails, the fleet drops it later.
func (c *Client) dropUpload(ctx context.Context, id job.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	_, _ = c.json(ctx, call{method: http.MethodDelete, path: uploadPath(id)}, nil)
}

func uploadPath(id job.ID) string { return "/v1/uploads/" + string(id) }
