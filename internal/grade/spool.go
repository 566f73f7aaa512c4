package grade

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// spoolMemory is how much of an output is held in memory, in bytes; more goes to a temporary file.
const spoolMemory = 1 << 20

// spool keeps the first limit bytes of an output, as they are, and counts the rest.
type spool struct {
	limit int64
	total int64
	mem   []byte
	file  *os.File // nil: all of it is in mem
	err   error    // of the file
}

// Write implements io.Writer. It takes everything.
func (s *spool) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), max(s.limit-s.total, 0))]
	s.total += int64(len(p))
	if s.file == nil && len(s.mem)+len(keep) <= spoolMemory {
		s.mem = append(s.mem, keep...)
		return len(p), nil
	}
	if s.err == nil && len(keep) > 0 {
		s.err = s.spill(keep)
	}
	return len(p), nil
}

// spill writes to the file, which has no name: it is gone with the process, if not before.
func (s *spool) spill(p []byte) (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "assay-output-"); err != nil {
			return fmt.Errorf("keep an output: %w", err)
		}
		if err := os.Remove(s.file.Name()); err != nil {
			return fmt.Errorf("keep an output: %w", err)
		}
	}
	if _, err := s.file.Write(p); err != nil {
		return fmt.Errorf("keep an output: %w", err)
	}
	return nil
}

// over reports whether more was written than is kept.
func (s *spool) over() bool { return s.total > s.limit }

// size is how much is kept, in bytes.
func (s *spool) size() int64 { return min(s.total, s.limit) }

// open reads what is kept, from the beginning. It may be called again.
func (s *spool) open() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.mem)
	}
	return io.MultiReader(bytes.NewReader(s.mem), io.NewSectionReader(s.file, 0, s.size()-int64(len(s.mem))))
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
