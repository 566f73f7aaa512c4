package web

import (
	"io"

	"github.com/assay-run/assay/internal/dispatcher/share"
)

const (
	spoolStep  = 1 << 20
	memoryStep = 1 << 20
	// freeMemory is the size up to which a body is not accounted for. Most bodies are smaller, and the limit of
	// requests bounds their number.
	freeMemory = 64 << 10
)

// Spooled accounts for a body that is written to disk before it is accepted.
type Spooled struct {
	io.Reader
	Claim share.Claim
	n     int64
}

func (s *Spooled) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.n += int64(n)
	if gerr := s.Claim.Grow(s.n, spoolStep); gerr != nil {
		return 0, gerr
	}
	return n, err
}
