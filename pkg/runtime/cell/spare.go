package cell

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// spareBox is the box of a slot's next copy, made ahead of time: to make one is
// half of the way. It goes if no copy is asked for in time. Until then it is one
// process more that what runs in the slot sees, and may kill, inside its pid
// namespace, as it may a copy.
type spareBox struct {
	making sync.Mutex // held while a spare box is made
	spare  *slot      // nil: none
	noMore bool       // there will be no other
}

// spareDelay is how long after a copy the box of the next one is made: not while
// somebody waits for the copy to begin.
const spareDelay = 4 * time.Millisecond

// makeSpare makes the box of the next copy, unless there is one.
func (s *slot) makeSpare() {
	s.making.Lock()
	defer s.making.Unlock()
	if s.spare != nil || s.noMore {
		return
	}
	ctx, cancel := context.WithTimeout(s.cell.cells.background.Context(), boxTime)
	defer cancel()
	c, err := s.newCopyBox(ctx)
	if err != nil { // the program may have ended just now; who asks for a copy is told
		slog.DebugContext(ctx, "no spare box for the next copy", "error", err)
		return
	}
	s.spare = c
	time.AfterFunc(s.cell.cells.cfg.WarmIdle, func() {
		if s.withdrawSpare(c, false) != nil {
			c.Close()
		}
	})
}

// withdrawSpare takes the spare box out and returns it; nil if there is none, or,
// unless c is nil, if it is not c. One that is being made is waited for: it is
// there sooner than another. After the last there will be no other.
func (s *slot) withdrawSpare(c *slot, last bool) *slot {
	s.making.Lock()
	defer s.making.Unlock()
	s.noMore = s.noMore || last
	have := s.spare
	if have == nil || c != nil && have != c {
		return nil
	}
	s.spare = nil
	return have
}

// takeSpare returns the spare box, nil if there is none that can be used.
func (s *slot) takeSpare() *slot {
	c := s.withdrawSpare(nil, false)
	if c == nil || !c.sup.Dying() && c.lease.Again() == nil { // what runs in the slot may have killed it just now
		return c
	}
	c.Close()
	return nil
}

// endSpares closes the spare box, and there will be no other.
func (s *slot) endSpares() {
	if c := s.withdrawSpare(nil, true); c != nil {
		c.Close()
	}
}
