package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// StallLimit is how long a peer may leave an answer standing still. A
// limit on the whole request would break streams; none at all would let anybody
// hold connections for nothing.
const StallLimit = time.Minute

// minRate is how fast a body must come in the mean, besides Limits.Patience, in bytes
// a second: one byte every few seconds would hold a connection and its memory for
// hours.
const minRate = 1 << 10

// patientBody gives every read of a request body its own deadline. Only the time in
// which we waited for the client counts.
type patientBody struct {
	io.ReadCloser
	control  *http.ResponseController
	patience time.Duration // it may stand still for
	n        int64
	waited   time.Duration
	ended    bool
}

// WithPatience returns r with a body that is patient. A handler that never reads it answers under a
// deadline as well: the server reads what is left of a body before it sends an answer,
// which for one that does not come would be never.
func WithPatience(w http.ResponseWriter, r *http.Request, patience time.Duration) *http.Request {
	b := &patientBody{ReadCloser: r.Body, control: http.NewResponseController(w), patience: patience}
	if r.ContentLength != 0 { // unknown (-1) included; without a body the server watches for a client that goes
		_ = b.control.SetReadDeadline(time.Now().Add(patience))
	}
	r = r.WithContext(r.Context()) // the server keeps the body that it knows
	r.Body = b
	return r
}

// tooSlow tells a deadline of ours that passed from a body that broke off.
func (b *patientBody) tooSlow(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", api.ErrSlow, job.Invalid("body",
		"came too slowly: it must not stand still for %v, and must come at %s a second in the mean", b.patience, job.Size(minRate)))
}

func (b *patientBody) Read(p []byte) (int, error) {
	start := time.Now()
	if !b.ended {
		left := b.patience + time.Duration(b.n)*time.Second/minRate - b.waited
		// Writers that cannot do this (tests) have no connection to stall.
		_ = b.control.SetReadDeadline(start.Add(min(left, b.patience)))
	}
	n, err := b.ReadCloser.Read(p)
	b.n, b.waited = b.n+int64(n), b.waited+time.Since(start)
	if err != nil && !b.ended {
		b.ended = true
		// From here on the server itself reads: to notice that the client is gone,
		// where a deadline left behind would end every long poll, or before it
		// answers, what is left of a body that did not come, for ever.
		next := time.Time{}
		if err != io.EOF {
			next = start
		}
		_ = b.control.SetReadDeadline(next)
	}
	return n, b.tooSlow(err)
}

// StreamTo copies r to w, and gives each write its own deadline.
func StreamTo(w http.ResponseWriter, r io.Reader) error {
	control := http.NewResponseController(w)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(StallLimit))
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			_ = control.SetWriteDeadline(time.Time{})
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// PatientWriter gives each write its own deadline, as StreamTo does.
type PatientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Patient returns w as a PatientWriter. Done is to be called in the end.
func Patient(w http.ResponseWriter) *PatientWriter {
	return &PatientWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

func (w *PatientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(StallLimit))
	return w.ResponseWriter.Write(p)
}

// Done takes the deadline of the last write away.
func (w *PatientWriter) Done() { _ = w.control.SetWriteDeadline(time.Time{}) }
