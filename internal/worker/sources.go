package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
)

// forgetClass is for how long deliveries of a class are asked for after the
// dispatchers last named it.
const forgetClass = 15 * time.Minute

// sources are where deliveries come from: the pool, and the classes of jobs with
// special needs that this worker fits.
type sources struct {
	pool  string
	offer placement.Offer
	open  func(ctx context.Context, class string) (queue.Consumer, error)

	mu      sync.Mutex
	own     queue.Consumer // of the pool; nil if this worker is reserved for classes
	classes map[string]*source
	turn    int
	changed chan struct{} // closed when there is another source
}

type source struct {
	queue.Consumer
	named time.Time
}

func newSources(pool string, offer placement.Offer, own queue.Consumer, open func(context.Context, string) (queue.Consumer, error)) *sources {
	if offer.Lacks(placement.Need{Pool: pool}) != "" {
		own = nil
	}
	return &sources{pool: pool, offer: offer, own: own, open: open, classes: map[string]*source{}, changed: make(chan struct{})}
}

// hear takes note of the classes that there are. One that cannot be opened now is
// opened when it is named again.
func (s *sources) hear(ctx context.Context, classes []string) {
	for _, class := range classes {
		need := placement.ParseClass(class)
		if s.open == nil || need.Pool != s.pool || s.offer.Lacks(need) != "" || s.renew(class) {
			continue
		}
		c, err := s.open(ctx, class)
		if err != nil {
			slog.WarnContext(ctx, "class of jobs not opened, trying again", "class", class, "error", err)
			continue
		}
		s.mu.Lock()
		s.classes[class] = &source{c, time.Now()}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
}

// renew reports whether a class is a source already.
func (s *sources) renew(class string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.classes[class]
	if known != nil {
		known.named = time.Now()
	}
	return known != nil
}

// list returns the sources, another one first each time, and what says that there
// are more.
func (s *sources) list() (all []queue.Consumer, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		all = append(all, s.own)
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
// delivery of any.
func (s *sources) fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) error {
	all, changed := s.list()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	switch len(all) {
	case 0:
		pause(ctx, wait)
		return nil
	case 1:
		return all[0].Fetch(ctx, n, wait, out)
	}
	got := 0
	for _, c := range all {
		k, err := counted(ctx, c, n-got, 0, out)
		if got += k; err != nil || got == n || ctx.Err() != nil {
			return err
		}
	}
	if got > 0 {
		return nil
	}
	return first(ctx, cancel, all[:min(n, len(all))], wait, out)
}

// first waits at several sources for one delivery each, until one has come.
func first(ctx context.Context, cancel func(), from []queue.Consumer, wait time.Duration, out chan<- queue.Message) error {
	errs := make(chan error, len(from))
	for _, c := range from {
		go func() {
			k, err := counted(ctx, c, 1, wait, out)
			if k > 0 || err != nil {
				cancel()
			}
			errs <- err
		}()
	}
	var failed error
	for range from {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

// counted fetches and says how many came.
func counted(ctx context.Context, c queue.Consumer, n int, wait time.Duration, out chan<- queue.Message) (got int, err error) {
	in, done := make(chan queue.Message, n), make(chan struct{})
	go func() {
		defer close(done)
		for m := range in {
			got++
			out <- m
		}
	}()
	err = c.Fetch(ctx, n, wait, in)
	close(in)
	<-done
	return got, err
}
