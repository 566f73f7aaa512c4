package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// getOutput serves all of what was kept of one output of a finished job, or ranges of it,
// be it in the result or beside it. It is text of a stranger's: a browser must not take it
// for anything else.
func (s *Server) getOutput(w http.ResponseWriter, r *http.Request) error {
	id, err := idParam(r)
	if err != nil {
		return err
	}
	step, err := intParam(r, "step", object.WholeOutput, 0, job.MaxSteps-1)
	if err != nil {
		return err
	}
	stream := r.PathValue("stream")
	o, err := s.output(r, id, stream, int(step))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	slow := &patientWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	defer slow.done()
	if o.Stored == nil {
		http.ServeContent(slow, r, "", time.Time{}, bytes.NewReader([]byte(o.Text)))
		return nil
	}
	body, err := s.openOutput(r.Context(), tenantOf(r), id, stream, int(step), o.Stored)
	if err != nil {
		return fmt.Errorf("open %s of job %s: %w", stream, id, err)
	}
	defer body.Close()
	h.Set("ETag", `"sha256:`+o.Stored.SHA256+`"`)
	if r.Header.Get("Range") != "" || r.Header.Get("If-None-Match") != "" {
		http.ServeContent(slow, r, "", time.Time{}, body)
		return nil
	}
	// Whoever reads all of it gets what the record says, or an answer that breaks off.
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(o.Stored.Bytes, 10))
	w.WriteHeader(http.StatusOK)
	return streamTo(w, &checkedReader{ReadCloser: body, sum: sha256.New(), want: o.Stored.SHA256})
}

// output returns one output of a job's record.
func (s *Server) output(r *http.Request, id job.ID, stream string, step int) (job.Output, error) {
	type streams struct {
		Stdout job.Output `json:"stdout"`
		Stderr job.Output `json:"stderr"`
	}
	var res struct {
		streams
		Steps []streams `json:"steps"`
	}
	raw, err := s.Store.Result(r.Context(), tenantOf(r), id)
	if errors.Is(err, job.ErrNotFound) {
		if _, err := s.Store.Job(r.Context(), tenantOf(r), id); err != nil {
			return job.Output{}, fmt.Errorf("read job %s: %w", id, err)
		}
		return job.Output{}, notFound("job %s has not ended: it has no outputs yet", id)
	}
	if err != nil {
		return job.Output{}, fmt.Errorf("read result: %w", err)
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return job.Output{}, fmt.Errorf("decode the recorded result of job %s: %w", id, err)
	}
	of := res.streams
	if step != object.WholeOutput {
		if step >= len(res.Steps) {
			return job.Output{}, notFound("job %s has %d steps, and none with the number %d", id, len(res.Steps), step)
		}
		of = res.Steps[step]
	}
	switch stream {
	case "stdout":
		return of.Stdout, nil
	case "stderr":
		return of.Stderr, nil
	}
	return job.Output{}, notFound("job %s has no output %.40q: they are stdout and stderr", id, stream)
}

// openOutput opens what an attempt of the job stored as this output, and nothing else:
// the record is the word of a worker.
func (s *Server) openOutput(ctx context.Context, tenant string, id job.ID, stream string, step int, o *job.StoredOutput) (*rangeReader, error) {
	_, _, lease, ok := object.AttemptOf(o.Object)
	own, err := object.OutputKey(tenant, id, lease, stream, step)
	if !ok || err != nil || own != o.Object {
		return nil, fmt.Errorf("%w: the record names another object", job.ErrNotFound)
	}
	empty, info, err := s.Objects.GetRange(ctx, own, 0, 0)
	if err != nil {
		return nil, err
	}
	_ = empty.Close()
	if info.Bytes != o.Bytes {
		return nil, fmt.Errorf("%w: the object is not what the record says", job.ErrUnavailable)
	}
	return &rangeReader{size: info.Bytes, open: func(offset int64) (io.ReadCloser, error) {
		body, _, err := s.Objects.GetRange(ctx, own, offset, -1)
		return body, err
	}}, nil
}

// rangeReader reads an object from wherever it was sought to.
type rangeReader struct {
	open func(offset int64) (io.ReadCloser, error)
	size int64
	at   int64
	body io.ReadCloser // from at; nil: not yet opened
}

func (r *rangeReader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if r.body == nil {
		body, err := r.open(r.at)
		if err != nil {
			return 0, err
		}
		r.body = body
	}
	n, err := r.body.Read(p)
	if r.at += int64(n); err == io.EOF && r.at < r.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (r *rangeReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return r.at, errors.New("seek before the beginning")
	}
	if offset != r.at {
		_ = r.Close()
		r.at = offset
	}
	return offset, nil
}

func (r *rangeReader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// patientWriter gives each write its own deadline, as streamTo does.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *patientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(stallLimit))
	return w.ResponseWriter.Write(p)
}

func (w *patientWriter) done() { _ = w.control.SetWriteDeadline(time.Time{}) }
