package client

import (
	"errors"
	"io"
	"sync"
)

// replay is a body that can be sent again from its beginning.
type replay struct {
	mu      sync.Mutex
	r       io.ReadSeeker
	start   int64
	current *attempt
}

// rewinding returns a body that starts over where r stands now.
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

// attempt is the body of one request. The transport may go on reading it after
// the request has failed: from the moment the next one begins it gets nothing.
// It does not close the reader, which is the caller's.
type attempt struct{ replay *replay }

var errSuperseded = errors.New("the request is being sent again")

func (a *attempt) Read(b []byte) (int, error) {
	p := a.replay
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != a {
		return 0, errSuperseded
	}
	return p.r.Read(b)
}
