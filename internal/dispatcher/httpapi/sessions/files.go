package sessions

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// maxPiece is the most bytes of a session's file that one call reads.
const maxPiece = 8 << 20

// getFile reads a file of a session, or ranges of it.
func (h *Handlers) getFile(w http.ResponseWriter, r *http.Request) error {
	f := &sessionFile{of: h, r: r, path: "/" + r.PathValue("path")}
	first := int64(maxPiece)
	if r.Header.Get("Range") != "" {
		first = 1 // the first call only determines the length
	}
	if err := f.fetch(first); err != nil {
		return err
	}
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Disposition", "attachment")
	slow := web.Patient(w)
	defer slow.Done()
	http.ServeContent(slow, r, "", time.Time{}, f)
	return nil
}

// sessionFile reads a file of a live session in pieces. Reading fails if the file's length changes meanwhile, because
// the pieces would not match.
type sessionFile struct {
	of    *Handlers
	r     *http.Request
	path  string
	at    int64
	size  int64
	known bool   // size is valid
	piece []byte // the current piece
	begin int64  // offset of piece
}

// fetch reads the next piece, of at most n bytes.
func (f *sessionFile) fetch(n int64) error {
	reply, _, err := f.of.call(f.r, control.SessionCall{Op: control.SessionFile, Path: f.path, Offset: f.at, Length: n})
	if err != nil {
		return err
	}
	f.piece, f.begin = reply.Data, f.at
	if reply.Size == 0 { // an empty file, or the whole file from an older worker
		reply.Size, f.begin = int64(len(reply.Data)), 0
	}
	if f.known && reply.Size != f.size {
		return fmt.Errorf("%w: file %.300q had %d bytes and has %d", job.ErrConflict, f.path, f.size, reply.Size)
	}
	f.size, f.known = reply.Size, true
	return nil
}

// Read implements io.Reader.
func (f *sessionFile) Read(p []byte) (int, error) {
	if f.at >= f.size {
		return 0, io.EOF
	}
	if f.at < f.begin || f.at >= f.begin+int64(len(f.piece)) {
		if err := f.fetch(maxPiece); err != nil {
			return 0, err
		}
		if len(f.piece) == 0 {
			return 0, fmt.Errorf("%w: file %.300q ends before its length", job.ErrConflict, f.path)
		}
	}
	n := copy(p, f.piece[f.at-f.begin:])
	f.at += int64(n)
	return n, nil
}

// Seek implements io.Seeker.
func (f *sessionFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	f.at = offset
	return offset, nil
}
