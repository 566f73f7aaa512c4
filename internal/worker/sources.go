package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
)

// forgetClass is for how long deliveries of a class are asked for after the
// dispatchers last named it.
const forgetClass = 15 * time.Minute

// sources are where deliveries come from. Every worker asks for those of one class all
// the time: of jobs that any pool may run, or, in an exclusive pool, of jobs that name
// it. Which it is, the first heartbeat's answer says. Of the other classes it asks for
// those that it fits and that the dispatchers name.
type sources struct {
	pool string
	open func(ctx context.Context, class string) (queue.Consumer, error)

	mu      sync.Mutex
	offer   placement.Offer
	known   bool           // what always is asked for
	always  queue.Consumer // nil: nothing, as of a worker that is reserved for images
	classes map[string]*source
	turn    int
	changed chan struct{} // closed when the sources are others
}

type source struct {
	queue.Consumer
	named time.Time
}

func newSources(pool string, offer placement.Offer, open func(context.Context, string) (queue.Consumer, error)) *sources {
	return &sources{pool: pool, offer: offer, open: open, classes: map[string]*source{}, changed: make(chan struct{})}
}

// proved says what the worker offers, once that is known. Nothing was asked for before.
func (s *sources) proved(offer placement.Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	offer.Exclusive = s.offer.Exclusive
	s.offer = offer
}

// share says whether the pool is exclusive. What cannot be opened now is opened when it
// is sent again.
func (s *sources) share(ctx context.Context, exclusive bool) {
	s.mu.Lock()
	same, offer := s.known && s.offer.Exclusive == exclusive, s.offer
	s.mu.Unlock()
	if same {
		return
	}
	class := placement.Any
	if exclusive {
		class = s.pool
	}
	var always queue.Consumer
	if offer.Lacks(placement.Need{Pool: class}) == "" {
		var err error
		if always, err = s.open(ctx, class); err != nil {
			slog.WarnContext(ctx, "job class not opened; retrying", "class", class, "error", err)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.always, s.offer.Exclusive = true, always, exclusive
	for c := range s.classes { // what it may not take any more, and what it takes anyway
		if c == class || !s.offer.Takes(s.pool, placement.ParseClass(c)) {
			delete(s.classes, c)
		}
	}
	s.change()
}

// change has whoever waits at the sources look again. s.mu is held.
func (s *sources) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// hear takes note of the classes that there are. One that cannot be opened now is
// opened when it is named again.
func (s *sources) hear(ctx context.Context, classes []string) {
	for _, class := range classes {
		if !s.wants(class) {
			continue
		}
		c, err := s.open(ctx, class)
		if err != nil {
			slog.WarnContext(ctx, "job class not opened; retrying", "class", class, "error", err)
			continue
		}
		s.mu.Lock()
		s.classes[class] = &source{c, time.Now()}
		s.change()
		s.mu.Unlock()
	}
}

// wants reports whether a class is to be opened, and notes that it was named.
func (s *sources) wants(class string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.classes[class]; known != nil {
		known.named = time.Now()
		return false
	}
	always := placement.Any
	if s.offer.Exclusive {
		always = s.pool
	}
	return s.known && class != always && s.offer.Takes(s.pool, placement.ParseClass(class))
}

// shortWait is how long a fetch waits if there are more sources than deliveries that it may
// take: each source that it waits at may bring one, so it does not wait at all of them.
const shortWait = 100 * time.Millisecond

// list returns the sources, another one first each time, and what says that there
// are more.
func (s *sources) list() (all []queue.Consumer, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.always != nil {
		all = append(all, s.always)
	}
	for class, c := range s.classes {
		if time.Since(c.named) > forgetClass {
			delete(s.classes, class)
			continue
		}
		all = append(all, c)
	}
	if len(all) > 1 {
		s.turn = (s.turn + 1) % len(all)
		all = append(all[s.turn:], all[:s.turn]...)
	}
	return all, s.changed
}

// fetch asks the sources for up to n deliveries: first for what is there, one
// source after the other; then, if there was nothing, it waits for the first
// delivery of any. Where it cannot wait at all of them it does not wait for long.
// It returns how many it has sent to out.
func (s *sources) fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) (sent int, err error) {
	all, changed := s.list()
	ctx, cancel := untilClosed(ctx, changed)
	defer cancel()
	switch len(all) {
	case 0:
		pause.For(ctx, wait)
		return 0, nil
	case 1:
		return all[0].Fetch(ctx, n, wait, out)
	}
	for _, c := range all {
		k, err := c.Fetch(ctx, n-sent, 0, out)
		if sent += k; err != nil || sent == n || ctx.Err() != nil {
			return sent, err
		}
	}
	if sent > 0 {
		return sent, nil
	}
	if n < len(all) {
		all, wait = all[:n], min(wait, shortWait)
	}
	return first(ctx, cancel, all, wait, out)
}

// first waits at several sources for one delivery each, until one has come.
func first(ctx context.Context, cancel func(), from []queue.Consumer, wait time.Duration, out chan<- queue.Message) (sent int, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, c := range from {
		all.Go(func() {
			k, failed := c.Fetch(ctx, 1, wait, out)
			if k > 0 || failed != nil {
				cancel()
			}
			mu.Lock()
			defer mu.Unlock()
			if sent += k; failed != nil {
				err = failed
			}
		})
	}
	all.Wait()
	return sent, err
}

// untilClosed returns a context that ends when c is closed, too.
func untilClosed(ctx context.Context, c <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
