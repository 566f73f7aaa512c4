package dispatcher

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// backlogged is a store with queued jobs of one pool.
type backlogged struct {
	store.Scheduler
	queued, looks atomic.Int64
}

func (b *backlogged) Pools(context.Context) ([]string, error) { return []string{placement.Any}, nil }

func (b *backlogged) Stats(context.Context) (store.Stats, error) {
	return store.Stats{Queued: b.queued.Load()}, nil
}

func (b *backlogged) Schedule(context.Context, []string, int) ([]store.Dispatch, error) {
	b.looks.Add(1)
	n := min(b.queued.Load(), 1)
	b.queued.Add(-n)
	return make([]store.Dispatch, n), nil
}

type deaf struct{ Queue }

func (deaf) Publish(context.Context, []store.Dispatch) error { return nil }
func (deaf) SendClasses(string, []string) error              { return nil }

// TestRest checks that claims gather between passes at high claim rates, and at lower rates only with a backlog.
func TestRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pace, queued int  // claims in half a second, and jobs in the queue before that
		each         bool // a job is queued before every claim
		least, most  int  // passes
	}{
		"at pace":                      {pace: 100, queued: 1000, least: 5, most: 40},
		"slower, with a backlog":       {pace: 30, queued: 1000, least: 5, most: 14},
		"slower, while more is queued": {pace: 30, queued: 1000, each: true, least: 3, most: 12},
		"slower, without":              {pace: 30, queued: 0, each: true, least: 30, most: 80},
		"so slow that it is not much":  {pace: 3, queued: 1000, least: 3, most: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &backlogged{}
				s.queued.Store(int64(c.queued))
				r := fleet.New(fleet.Config{Log: slog.New(slog.DiscardHandler)}, nil)
				m, err := newMetrics()
				if err != nil {
					t.Fatal(err)
				}
				leads := &leader{began: time.Now(), gained: make(chan struct{})}
				leads.until.Store(math.MaxInt64)
				log := slog.New(slog.DiscardHandler)
				sched := &scheduler{store: s, publisher: deaf{}, fleet: r, classes: newClasses(s, deaf{}, r, nil, log), leader: leads,
					repeats: &repeats{}, pacer: newPacer(time.Hour), metrics: m, log: log, minWindow: 8}
				r.RecordHeartbeat(control.WorkerInfo{ID: "w", Pool: "p", Slots: 4, Busy: 4})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { sched.run(ctx); close(done) }()
				sched.wake()
				claim := func() {
					if c.each {
						s.queued.Add(1)
						sched.wake()
					}
					sched.took("w", 1)
					time.Sleep(rateEvery / time.Duration(c.pace))
				}
				for range c.pace { // to establish the rate
					claim()
				}
				synctest.Wait()
				s.looks.Store(0)
				for range c.pace {
					claim()
				}
				synctest.Wait()
				if n := int(s.looks.Load()); n < c.least || n > c.most {
					t.Errorf("%d looks, want %d to %d", n, c.least, c.most)
				}
				cancel()
				<-done
			})
		})
	}
}

// slowed is a store that fails for windows above some size.
type slowed struct {
	backlogged
	most    int
	windows []int
}

func (s *slowed) Schedule(_ context.Context, _ []string, window int) ([]store.Dispatch, error) {
	s.windows = append(s.windows, window)
	if window > s.most {
		return nil, job.ErrUnavailable
	}
	return make([]store.Dispatch, 1), nil
}

// offering returns a leading scheduler of a store and a fleet.
func offering(t *testing.T, s interface {
	schedulerStore
	store.Scheduler
}, r *fleet.Fleet) *scheduler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	m, err := newMetrics()
	if err != nil {
		t.Fatal(err)
	}
	leads := &leader{began: time.Now(), gained: make(chan struct{})}
	leads.until.Store(math.MaxInt64)
	return &scheduler{store: s, publisher: deaf{}, fleet: r, classes: newClasses(s, deaf{}, r, nil, log), leader: leads,
		repeats: &repeats{}, pacer: newPacer(time.Hour), metrics: m, log: log, minWindow: 8}
}

// TestFailedLooksNarrowTheWindow checks that the scheduler halves the window until passes succeed, and widens it
// again after that.
func TestFailedLooksNarrowTheWindow(t *testing.T) {
	t.Parallel()
	s := &slowed{most: 5}
	r := fleet.New(fleet.Config{Log: slog.New(slog.DiscardHandler)}, nil)
	sched := offering(t, s, r)
	r.RecordHeartbeat(control.WorkerInfo{ID: "w", Pool: "p", Slots: 40})
	for range 4 {
		sched.look(t.Context())
	}
	s.most = 1000
	for range 4 {
		sched.look(t.Context())
	}
	if want := []int{40, 20, 10, 5, 10, 20, 40, 40}; !slices.Equal(s.windows, want) {
		t.Errorf("windows %v, want %v", s.windows, want)
	}
}

// broken is a store whose statements fail for the jobs of some pools.
type broken struct {
	backlogged
	pools, bad []string
	windows    map[string][]int
}

func (b *broken) Pools(context.Context) ([]string, error) { return slices.Clone(b.pools), nil }

func (b *broken) Schedule(_ context.Context, classes []string, window int) ([]store.Dispatch, error) {
	b.windows[classes[0]] = append(b.windows[classes[0]], window)
	if slices.Contains(b.bad, classes[0]) {
		return nil, job.ErrUnavailable
	}
	return make([]store.Dispatch, 1), nil
}

// TestFailingCrews checks that crews whose statements fail leave the passes and the windows of the others as they are, and that
// their own windows shrink.
func TestFailingCrews(t *testing.T) {
	t.Parallel()
	s := &broken{pools: []string{"a", "b", "c", "d"}, bad: []string{"a", "c"}, windows: map[string][]int{}}
	r := fleet.New(fleet.Config{Log: slog.New(slog.DiscardHandler)}, nil)
	sched := offering(t, s, r)
	for _, p := range s.pools {
		r.RecordHeartbeat(control.WorkerInfo{ID: p, Pool: p, Slots: 16})
	}
	sched.wake()
	for range 3 {
		sched.look(t.Context())
	}
	for pool, want := range map[string][]int{"a": {16, 8, 4}, "b": {16, 16, 16}, "c": {16, 8, 4}, "d": {16, 16, 16}} {
		if got := s.windows[pool]; !slices.Equal(got, want) {
			t.Errorf("pool %s: windows %v, want %v", pool, got, want)
		}
	}
	s.bad = nil
	sched.look(t.Context())
	sched.look(t.Context())
	sched.look(t.Context())
	if got, want := s.windows["a"], []int{16, 8, 4, 2, 4, 8}; !slices.Equal(got, want) {
		t.Errorf("windows %v after statements succeed again, want %v", got, want)
	}
}
