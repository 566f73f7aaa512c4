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

// forgetClass is how long the worker pulls a class after the dispatchers last named it.
const forgetClass = 15 * time.Minute

// sources are the classes of jobs that the worker pulls. Each worker always pulls one class: jobs
// that any pool may run or, in an exclusive pool, jobs that name the pool. The answer to the first
// heartbeat decides which. The worker also pulls each class that the dispatchers name and that fits
// its offer.
type sources struct {
	pool string
	open func(ctx context.Context, class string) (queue.Consumer, error)

	mu      sync.Mutex
	offer   placement.Offer
	known   bool           // whether share has set always
	always  queue.Consumer // nil: none, for a worker that is reserved for images
	classes map[string]*source
	turn    int
	changed chan struct{} // closed when the sources change
}

type source struct {
	queue.Consumer
	named time.Time
}

func newSources(pool string, offer placement.Offer, open func(context.Context, string) (queue.Consumer, error)) *sources {
	return &sources{pool: pool, offer: offer, open: open, classes: map[string]*source{}, changed: make(chan struct{})}
}

// proved sets the offer, once the canary jobs have determined it. No class is pulled before.
func (s *sources) proved(offer placement.Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	offer.Exclusive = s.offer.Exclusive
	s.offer = offer
}

// share sets whether the pool is exclusive. If the class cannot be opened, the next heartbeat tries
// again.
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
	for c := range s.classes { // classes that no longer fit, and the class that is always pulled
		if c == class || !s.offer.Takes(s.pool, placement.ParseClass(c)) {
			delete(s.classes, c)
		}
	}
	s.change()
}

// change wakes the fetches, which then list the sources again. The caller holds s.mu.
func (s *sources) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// openClasses opens the classes that dispatchers name. If one cannot be opened, its next announcement
// tries again.
func (s *sources) openClasses(ctx context.Context, classes []string) {
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

// wants reports whether a class should be opened, and records that it was named.
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

// shortWait is the wait of a fetch if there are more sources than deliveries to take. Each source
// may send one, so the fetch waits at only some of them.
const shortWait = 100 * time.Millisecond

// list returns the sources, each time starting with another one, and a channel that is closed when
// they change.
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

// fetch requests up to n deliveries. It first takes the available ones, source by source. If there
// are none, it waits for one delivery from each source, or for a short time at only n of them. It
// returns how many it sent to out.
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

// untilClosed returns a context that also ends when c is closed.
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
