package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// getOutput serves the exact recorded bytes of one output of a finished job, or ranges of them, from the result or the
// object store. A program wrote them, so the headers keep browsers from executing them.
func (s *Server) getOutput(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	step, err := web.Int(r, "step", object.WholeOutput, 0, job.MaxSteps-1)
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
	if o.Binary {
		h.Set("Content-Type", "application/octet-stream")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	slow := web.Patient(w)
	defer slow.Done()
	if o.Stored == nil {
		http.ServeContent(slow, r, "", time.Time{}, bytes.NewReader(o.Exact()))
		return nil
	}
	body, err := s.files.OpenOutput(r.Context(), web.Tenant(r), id, stream, int(step), o.Stored)
	if err != nil {
		return fmt.Errorf("open %s of job %s: %w", stream, id, err)
	}
	defer body.Close()
	h.Set("ETag", `"sha256:`+o.Stored.SHA256+`"`)
	if r.Header.Get("Range") != "" || r.Header.Get("If-None-Match") != "" {
		http.ServeContent(slow, r, "", time.Time{}, body)
		return nil
	}
	// A full read is verified against the record; on a mismatch the response breaks off.
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(o.Stored.Bytes, 10))
	w.WriteHeader(http.StatusOK)
	return web.StreamTo(w, files.Checked(body, o.Stored.SHA256))
}

// output returns one output from a job's record.
func (s *Server) output(r *http.Request, id job.ID, stream string, step int) (job.Output, error) {
	type streams struct {
		Stdout job.Output `json:"stdout"`
		Stderr job.Output `json:"stderr"`
	}
	var res struct {
		streams
		Steps []streams `json:"steps"`
	}
	raw, err := s.Store.Result(r.Context(), web.Tenant(r), id)
	if errors.Is(err, job.ErrNotFound) {
		if _, err := s.Store.Job(r.Context(), web.Tenant(r), id); err != nil {
			return job.Output{}, fmt.Errorf("read job %s: %w", id, err)
		}
		return job.Output{}, web.NotFound("job %s has not ended: it has no outputs yet", id)
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
			return job.Output{}, web.NotFound("job %s has %d steps, and none with the number %d", id, len(res.Steps), step)
		}
		of = res.Steps[step]
	}
	switch stream {
	case "stdout":
		return of.Stdout, nil
	case "stderr":
		return of.Stderr, nil
	}
	return job.Output{}, web.NotFound("job %s has no output %.40q; use stdout or stderr", id, stream)
}
