package output

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// spoolMemory is the most bytes of an output in memory. The rest goes to a temporary file.
const spoolMemory = 1 << 20

// Spool stores the first Limit bytes of an output and counts the rest.
type Spool struct {
	Limit int64
	Total int64 // bytes written
	Err   error // of the temporary file
	mem   []byte
	file  *os.File // nil: all in mem
}

// Write implements io.Writer. It accepts any amount.
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

// spill writes to an unlinked file, which disappears with the process.
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

// Over reports whether more was written than stored.
func (s *Spool) Over() bool { return s.Total > s.Limit }

// Size returns the number of stored bytes.
func (s *Spool) Size() int64 { return min(s.Total, s.Limit) }

// Open reads the stored bytes from the start. It may be called repeatedly.
func (s *Spool) Open() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.mem)
	}
	return io.MultiReader(bytes.NewReader(s.mem), io.NewSectionReader(s.file, 0, s.Size()-int64(len(s.mem))))
}

// Close removes the stored bytes.
func (s *Spool) Close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
