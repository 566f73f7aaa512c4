package capture

import (
	"os"

	"github.com/assay-run/assay/pkg/job"
)

// MaxInMemory is the most bytes of one stream that a Buffer holds in memory. A larger stream is too
// large for a result, too.
const MaxInMemory = int(job.MaxInline)

// storage is a range of bytes: the first most in memory, the others in a file. The first write to
// an offset must continue the earlier ones.
type storage struct {
	most   int
	mem    []byte
	file   *os.File // nil: everything is in mem
	failed bool     // writing the file failed: it counts as empty
}

func (s *storage) write(p []byte, at int) {
	if at < s.most {
		n := min(len(p), s.most-at)
		over := copy(s.mem[at:], p[:n])
		s.mem = append(s.mem, p[over:n]...)
		p, at = p[n:], at+n
	}
	if len(p) == 0 || s.failed {
		return
	}
	if s.file == nil {
		s.file = unnamed()
	}
	if s.file == nil {
		s.failed = true
	} else if _, err := s.file.WriteAt(p, int64(at-s.most)); err != nil {
		s.failed = true
		_ = s.file.Close()
	}
}

func (s *storage) read(p []byte, at int) {
	if at < len(s.mem) {
		n := copy(p, s.mem[at:])
		p, at = p[n:], at+n
	}
	if len(p) > 0 {
		_, _ = s.file.ReadAt(p, int64(at-s.most)) // zeros if the disk fails
	}
}

// unnamed returns an unlinked temporary file, which ends with the process, or nil if none can be
// created.
func unnamed() *os.File {
	f, err := os.CreateTemp("", "assay-output-")
	if err != nil {
		return nil
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil
	}
	return f
}
