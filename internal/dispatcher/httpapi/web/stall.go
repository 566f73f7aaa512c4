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

// StallLimit is how long a client may stop reading a response. A limit on the whole request would break streams;
// without a limit, clients could hold connections for ever.
const StallLimit = time.Minute

// minRate is the lowest mean rate of a body in bytes a second, besides Limits.Patience. Otherwise a client that sends a
// byte every few seconds would hold a connection and its memory for hours.
const minRate = 1 << 10

// patientBody gives each read of a request body its own deadline. It counts only the time spent waiting for the client.
type patientBody struct {
	io.ReadCloser
	control  *http.ResponseController
	patience time.Duration // longest stall
	n        int64
	waited   time.Duration
	ended    bool
}

// WithPatience returns r with a patientBody. Handlers that never read the body have a deadline, too: before responding,
// the server reads the rest of the body, which may never come.
func WithPatience(w http.ResponseWriter, r *http.Request, patience time.Duration) *http.Request {
	b := &patientBody{ReadCloser: r.Body, control: http.NewResponseController(w), patience: patience}
	if r.ContentLength != 0 { // includes unknown (-1); without a body the server watches for a disconnect
		_ = b.control.SetReadDeadline(time.Now().Add(patience))
	}
	r = r.WithContext(r.Context()) // the server keeps its own body
	r.Body = b
	return r
}

// tooSlow maps an expired deadline to api.ErrSlow and returns other errors as they are.
func (b *patientBody) tooSlow(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", api.ErrSlow, job.Invalid("body",
		"arrived too slowly: it must not pause for %v, and needs %s a second on average", b.patience, job.Size(minRate)))
}

func (b *patientBody) Read(p []byte) (int, error) {
	start := time.Now()
	if !b.ended {
		left := b.patience + time.Duration(b.n)*time.Second/minRate - b.waited
		// Some writers in tests have no deadlines; they have no connection that could stall, either.
		_ = b.control.SetReadDeadline(start.Add(min(left, b.patience)))
	}
	n, err := b.ReadCloser.Read(p)
	b.n, b.waited = b.n+int64(n), b.waited+time.Since(start)
	if err != nil && !b.ended {
		b.ended = true
		// From here on the server itself reads. It detects a disconnect, and there a leftover deadline would end each
		// long poll. Or it drains a broken body before it responds, which without a deadline might never end.
		next := time.Time{}
		if err != io.EOF {
			next = start
		}
		_ = b.control.SetReadDeadline(next)
	}
	return n, b.tooSlow(err)
}

// StreamTo copies r to w, with a deadline for each write.
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

// Patient returns w as a PatientWriter. Call Done at the end.
func Patient(w http.ResponseWriter) *PatientWriter {
	return &PatientWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

func (w *PatientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(StallLimit))
	return w.ResponseWriter.Write(p)
}

// Done removes the deadline of the last write.
func (w *PatientWriter) Done() { _ = w.control.SetWriteDeadline(time.Time{}) }
