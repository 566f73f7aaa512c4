package httpapi

import (
	"io"
	"net/http"
	"time"
)

// stallLimit is how long a peer may leave a body or a stream standing still. A
// limit on the whole request would break streams; none at all would let anybody
// hold connections for nothing.
const stallLimit = time.Minute

// patientBody gives every read of a request body its own deadline.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	ended   bool
}

func (b *patientBody) Read(p []byte) (int, error) {
	if !b.ended {
		// Writers that cannot do this (tests) have no connection to stall.
		_ = b.control.SetReadDeadline(time.Now().Add(stallLimit))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.ended {
		b.ended = true
		// From here on the server itself reads, to notice that the client is
		// gone. A deadline left behind would end every long poll.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// streamTo copies r to w, and gives each write its own deadline.
func streamTo(w http.ResponseWriter, r io.Reader) error {
	control := http.NewResponseController(w)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(stallLimit))
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
