package output

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// spoolMemory is how much of an output is held in memory, in bytes; more goes to a temporary file.
const spoolMemory = 1 << 20

// Spool keeps the first Limit bytes of an output, as they are, and counts the rest.
type Spool struct {
	Limit int64
	Total int64 // that was written, in bytes
	Err   error // of the temporary file
	mem   []byte
	file  *os.File // nil: all of it is in mem
}

// Write implements io.Writer. It takes everything.
func (s *Spool) Write(p []byte) (int, error) {
	keep := p[:min(int64(len(p)), max(s.Limit-s.Total, 0))]
	s.Total += int64(len(p))
	if s.file == nil && len(s.mem)+len(keep) <= spoolMemory {
		s.mem = append(s.mem, keep...)
		return len(p), nil
	}
	if s.Err == nil && len(keep) > 0 {
		s.Err = s.spill(keep)
	}
	return len(p), nil
}

// spill writes to the file, which has no name: it is gone with the process, if not before.
func (s *Spool) spill(p []byte) (err error) {
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

// Over reports whether more was written than is kept.
func (s *Spool) Over() bool { return s.Total > s.Limit }

// Size is how much is kept, in bytes.
func (s *Spool) Size() int64 { return min(s.Total, s.Limit) }

// Open reads what is kept, from the beginning. It may be called again.
func (s *Spool) Open() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.mem)
	}
	return io.MultiReader(bytes.NewReader(s.mem), io.NewSectionReader(s.file, 0, s.Size()-int64(len(s.mem))))
}

// Close removes what is kept.
func (s *Spool) Close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
