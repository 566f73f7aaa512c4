package containerd

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// pool keeps slots ready ahead of demand. A kind of slot that was asked for is
// kept warm until nobody has asked for a while; all kinds share one bound, and
// the one that was asked for last goes first.
type pool struct {
	most  int
	idle  time.Duration
	make  func(context.Context, *image) (*slot, error)
	mu    sync.Mutex
	shelf map[string]*shelf // by image digest
	count int               // of slots, those that are being made included
	done  bool
}

// shelf is the slots of one kind.
type shelf struct {
	image  *image
	ready  []*slot
	making int
	want   int // grows with demand that found nothing
	used   time.Time
}

// take returns a ready slot, nil if there is none, and notes the demand.
func (p *pool) take(img *image) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most == 0 || p.done {
		return nil
	}
	s := p.shelf[img.digest]
	if s == nil {
		s = &shelf{}
		p.shelf[img.digest] = s
	}
	s.image, s.used = img, time.Now()
	for len(s.ready) > 0 {
		last := len(s.ready) - 1
		got := s.ready[last]
		s.ready = s.ready[:last]
		p.count--
		if got.alive() && got.image.rootfs == img.rootfs {
			return got
		}
		got.Close()
	}
	s.want = min(s.want+1, p.most)
	return nil
}

// wanted returns a shelf that should be filled, and counts the slot that the
// caller is about to make for it.
func (p *pool) wanted() *shelf {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || p.count >= p.most {
		return nil
	}
	var best *shelf
	for _, s := range p.shelf {
		if len(s.ready)+s.making < s.want && (best == nil || s.used.After(best.used)) {
			best = s
		}
	}
	if best != nil {
		best.making++
		p.count++
	}
	return best
}

// fill makes one slot for a shelf that wants one. It reports whether another
// should be made.
func (p *pool) fill(ctx context.Context) bool {
	s := p.wanted()
	if s == nil {
		return false
	}
	got, err := p.make(ctx, s.image)
	p.mu.Lock()
	s.making--
	keep := err == nil && !p.done
	if keep {
		s.ready = append(s.ready, got)
	} else {
		p.count--
	}
	if err != nil {
		s.want = 0 // the next demand tries again, and its job hears why not
	}
	p.mu.Unlock()
	switch {
	case ctx.Err() != nil && err != nil: // the runtime is being closed
	case err != nil:
		slog.WarnContext(ctx, "cannot fill the pool", "image", s.image.name, "error", err)
	case !keep:
		got.Close()
	}
	return keep
}

// expire closes the slots of kinds that nobody has asked for in a while, and
// slots that died.
func (p *pool) expire(now time.Time) {
	var old []*slot
	p.mu.Lock()
	for key, s := range p.shelf {
		stale := now.Sub(s.used) > p.idle
		var live []*slot
		for _, got := range s.ready {
			if stale || !got.alive() {
				old = append(old, got)
			} else {
				live = append(live, got)
			}
		}
		p.count -= len(s.ready) - len(live)
		s.ready = live
		if stale {
			s.want = 0
			if s.making == 0 {
				delete(p.shelf, key)
			}
		}
	}
	p.mu.Unlock()
	for _, s := range old {
		s.Close()
	}
}

// close closes every slot and makes no more.
func (p *pool) close() {
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
	p.expire(time.Now().Add(2 * p.idle))
}
