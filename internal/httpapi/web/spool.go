package web

import (
	"io"

	"github.com/assay-run/assay/internal/share"
)

const (
	spoolStep  = 1 << 20
	memoryStep = 1 << 20
	// freeMemory is how much of a body may be read before it is accounted for: most
	// are smaller, and how many there are is bounded with the requests.
	freeMemory = 64 << 10
)

// Spooled counts what is read of a body that goes to the disk before it is
// accepted.
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
