package cell

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// spareBox is the box for a slot's next copy, created in advance, because this is half of a copy's
// time. It is removed if no copy is requested in time. Until then the program in the slot sees one
// more process in its pid namespace, and may kill it, as it may kill a copy.
type spareBox struct {
	making sync.Mutex // held during the creation of a spare box
	spare  *slot      // nil: none
	noMore bool       // no further spare box
}

// spareDelay is the delay between a copy and the next spare box, so that a client does not wait for
// both.
const spareDelay = 4 * time.Millisecond

// makeSpare creates the box of the next copy, unless there is one.
func (s *slot) makeSpare() {
	s.making.Lock()
	defer s.making.Unlock()
	if s.spare != nil || s.noMore {
		return
	}
	ctx, cancel := context.WithTimeout(s.cell.cells.background.Context(), boxTime)
	defer cancel()
	c, err := s.newCopyBox(ctx)
	if err != nil { // the program may have just ended; a later request reports the error
		slog.DebugContext(ctx, "spare sandbox not created", "error", err)
		return
	}
	s.spare = c
	time.AfterFunc(s.cell.cells.cfg.WarmIdle, func() {
		if s.withdrawSpare(c, false) != nil {
			c.Close()
		}
	})
}

// withdrawSpare removes and returns the spare box. It returns nil if there is none or, unless c is
// nil, if it is not c. It waits for a box in creation, which is ready sooner than a new one. last
// prevents further spare boxes.
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

// takeSpare returns the spare box, or nil if there is no usable one.
func (s *slot) takeSpare() *slot {
	c := s.withdrawSpare(nil, false)
	if c == nil || !c.sup.Dying() && c.lease.Restart() == nil { // the program in the slot may have just killed it
		return c
	}
	c.Close()
	return nil
}

// endSpares closes the spare box and prevents further ones.
func (s *slot) endSpares() {
	if c := s.withdrawSpare(nil, true); c != nil {
		c.Close()
	}
}
