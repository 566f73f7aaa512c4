package client

import (
	"errors"
	"io"
	"sync"
)

// replay is a body that can be sent again from its start.
type replay struct {
	mu      sync.Mutex
	r       io.ReadSeeker
	start   int64
	current *attempt
}

// rewinding returns a body that restarts at the current position of r.
func rewinding(r io.ReadSeeker) func() (io.Reader, error) {
	p := &replay{r: r}
	start, err := r.Seek(0, io.SeekCurrent)
	p.start = start
	return func() (io.Reader, error) {
		if err != nil {
			return nil, err
		}
		return p.again()
	}
}

func (p *replay) again() (io.Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.r.Seek(p.start, io.SeekStart); err != nil {
		return nil, err
	}
	p.current = &attempt{p}
	return p.current, nil
}

// attempt is the body of one request. The transport may read it after the request has failed; it
// returns EOF once the next attempt starts. It does not close the caller's reader.
type attempt struct{ replay *replay }

var errSuperseded = errors.New("the request is being resent")

func (a *attempt) Read(b []byte) (int, error) {
	p := a.replay
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != a {
		return 0, errSuperseded
	}
	return p.r.Read(b)
}
