package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is the content of these tests' pools.
type item struct {
	key  string
	warm bool
	dead atomic.Bool
}

// shop makes items and remembers what became of them.
type shop struct {
	mu      sync.Mutex
	takes   time.Duration
	fail    error
	live    map[*item]bool
	made    int
	dropped int
	most    int // alive at once
}

func (s *shop) make(ctx context.Context, key string) (*item, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	v := &item{key: key}
	s.live[v] = true
	s.made++
	s.most = max(s.most, len(s.live))
	return v, nil
}

func (s *shop) drop(v *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, v)
	s.dropped++
}

func open(t *testing.T, edit func(*Config[string, *item])) (*Pool[string, *item], *shop) {
	t.Helper()
	s := &shop{takes: 10 * time.Millisecond, live: map[*item]bool{}}
	cfg := Config[string, *item]{
		Name: "test", Make: s.make, Drop: s.drop, Most: 4, Idle: time.Minute, Fill: 2,
		Alive: func(_ string, v *item) bool { return !v.dead.Load() },
	}
	if edit != nil {
		edit(&cfg)
	}
	p := New(cfg)
	t.Cleanup(p.Close)
	return p, s
}

// get takes one and throws it away, as a job does with its slot.
func get(t *testing.T, p *Pool[string, *item], s *shop, key string) *item {
	t.Helper()
	v, err := p.Get(t.Context(), key)
	if err != nil {
		t.Error(err)
		return &item{}
	}
	if v.key != key {
		t.Errorf("asked for %s, got %s", key, v.key)
	}
	s.drop(v)
	return v
}

// atOnce is n that ask at the same time.
func atOnce(t *testing.T, p *Pool[string, *item], s *shop, key string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { get(t, p, s, key) })
	}
	wg.Wait()
}

func TestDemandFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, nil)
		pass(time.Second)
		if s.made != 0 {
			t.Errorf("%d made before any demand", s.made)
		}
		get(t, p, s, "a")
		pass(time.Second)
		if n := p.Ready("a"); n != 1 {
			t.Fatalf("%d ready after one demand, want 1", n)
		}
		began := time.Now()
		get(t, p, s, "a")
		if took := time.Since(began); took != 0 {
			t.Errorf("a ready one took %v", took)
		}
	})
}

// Four that ask at once, again and again, find four after a while.
func TestDemandGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, nil)
		for range 10 {
			atOnce(t, p, s, "a", 4)
			pass(time.Second)
		}
		if n := p.Ready("a"); n != 4 {
			t.Fatalf("%d ready, want 4", n)
		}
		for range 50 { // one at a time from now on
			pass(5 * time.Second)
			get(t, p, s, "a")
		}
		if n := p.Ready("a"); n > 2 || n < 1 {
			t.Errorf("%d ready, want one or two", n)
		}
	})
}

// TestSettle checks that a taken item is replaced a little later, unless resources are short.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, func(c *Config[string, *item]) { c.Settle = 50 * time.Millisecond })
		atOnce(t, p, s, "a", 4)
		pass(time.Second)
		if p.Ready("a") != 4 {
			t.Fatalf("%d ready, want 4", p.Ready("a"))
		}
		made := s.made
		get(t, p, s, "a")
		if pass(40 * time.Millisecond); s.made != made {
			t.Error("made at once")
		}
		if pass(30 * time.Millisecond); s.made != made+1 {
			t.Errorf("%d made, want 1", s.made-made)
		}
		atOnce(t, p, s, "a", 3)
		if pass(30 * time.Millisecond); s.made != made+4 {
			t.Errorf("%d made at once, want 3", s.made-made-1)
		}
	})
}

func TestBounds(t *testing.T) {
	for name, edit := range map[string]func(*Config[string, *item]){
		"count": func(c *Config[string, *item]) { c.Most = 3 },
		"memory": func(c *Config[string, *item]) {
			c.Most, c.Memory, c.Weigh = 100, 35, func(string) int64 { return 10 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := open(t, edit)
				for range 20 {
					get(t, p, s, "a")
					get(t, p, s, "b")
					pass(3 * time.Millisecond)
				}
				pass(time.Second)
				if n := p.Ready("a") + p.Ready("b"); n != 3 || s.most > 5 { // two asked while three were there
					t.Errorf("%d ready, at most %d alive; want 3", n, s.most)
				}
			})
		})
	}
}

// TestTheLastUsedIsServedFirst checks that a requested key takes the places of an unused one, as many as it
// needs.
func TestTheLastUsedIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, func(c *Config[string, *item]) {
			c.Most, c.Memory = 100, 40
			c.Weigh = func(k string) int64 { return map[string]int64{"small": 10, "big": 30}[k] }
		})
		atOnce(t, p, s, "small", 4)
		pass(time.Second)
		if n := p.Ready("small"); n != 4 {
			t.Fatalf("%d small ones ready, want 4", n)
		}
		get(t, p, s, "big")
		pass(time.Second)
		if small, big := p.Ready("small"), p.Ready("big"); small != 1 || big != 1 {
			t.Errorf("%d small and %d big ones ready, want 1 and 1", small, big)
		}
	})
}

func TestNothingIsKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, func(c *Config[string, *item]) { c.Age = 10 * time.Minute })
		get(t, p, s, "a")
		pass(30 * time.Second)
		if p.Ready("a") != 1 {
			t.Fatal("dropped although there was demand just now")
		}
		pass(time.Minute)
		if p.Ready("a") != 0 || len(s.live) != 0 || len(p.buckets) != 0 {
			t.Errorf("%d ready, %d alive, %d buckets without demand", p.Ready("a"), len(s.live), len(p.buckets))
		}
		get(t, p, s, "a")
		pass(time.Second)
		oldest := first(p, "a")
		for range 14 {
			pass(50 * time.Second)
			p.mu.Lock()
			p.buckets["a"].used = time.Now() // wanted, yet never taken
			p.mu.Unlock()
		}
		if n := p.Ready("a"); n != 1 || first(p, "a") == oldest {
			t.Errorf("%d ready; the old one must have been replaced", n)
		}
	})
}

func TestTheDeadAreNotHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, nil)
		get(t, p, s, "a")
		pass(time.Second)
		first(p, "a").dead.Store(true)
		if v := get(t, p, s, "a"); v.dead.Load() {
			t.Error("handed out a dead one")
		}
		pass(time.Second)
		first(p, "a").dead.Store(true)
		pass(16 * time.Second) // a tick
		if n := p.Ready("a"); n == 0 || first(p, "a").dead.Load() {
			t.Errorf("%d ready, want a living one in place of the dead", n)
		}
	})
}

func TestWarmIsForThoseMadeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		p, s := open(t, func(c *Config[string, *item]) {
			c.Warm = func(_ context.Context, _ string, v *item) error { v.warm = true; return fail }
		})
		if get(t, p, s, "a").warm {
			t.Error("one that somebody waited for was warmed")
		}
		pass(time.Second)
		if !get(t, p, s, "a").warm {
			t.Error("one made ahead was not warmed")
		}
		pass(time.Second)
		fail = errors.New("no")
		get(t, p, s, "a")
		pass(time.Second)
		if n := p.Ready("a"); n != 0 || len(s.live) != 0 {
			t.Errorf("%d ready, %d alive after warming failed", n, len(s.live))
		}
	})
}

// TestFailure checks that a failure to make an item is returned to the caller, and that the pool does not
// retry without demand.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, nil)
		get(t, p, s, "a")
		pass(time.Second)
		s.fail = errors.New("no")
		p.Flush("a")
		if _, err := p.Get(t.Context(), "a"); !errors.Is(err, s.fail) {
			t.Errorf("got %v", err)
		}
		pass(10 * time.Second)
		s.fail = nil
		get(t, p, s, "a")
		pass(time.Second)
		if p.Ready("a") == 0 {
			t.Error("not filled after it works again")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("changed my mind")
		cancel(why)
		if _, err := p.Get(ctx, "a"); !errors.Is(err, why) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, nil)
		for range 4 {
			get(t, p, s, "a")
		}
		pass(15 * time.Millisecond) // some are being made
		p.Close()
		if len(s.live) != 0 {
			t.Errorf("%d alive after Close", len(s.live))
		}
		get(t, p, s, "a") // made for the asking, and not kept
		pass(time.Minute)
		if ready, making := p.levels(); ready+making != 0 || len(s.live) != 0 {
			t.Errorf("%d ready, %d being made, %d alive after Close", ready, making, len(s.live))
		}
	})
}

func TestNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, func(c *Config[string, *item]) { c.Most = 0 })
		get(t, p, s, "a")
		pass(time.Second)
		if s.made != 1 {
			t.Errorf("%d made, want the one asked for", s.made)
		}
	})
}

// first returns the oldest item of key.
func first(p *Pool[string, *item], key string) *item {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buckets[key].ready[0].value
}

// pass lets time pass, and everybody come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestMeter checks that the pool reports its hit rate.
func TestMeter(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	got := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		p, s := open(t, nil)
		get(t, p, s, "a")
		pass(time.Second)
		get(t, p, s, "a")
		pass(time.Second)
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, m := range all.ScopeMetrics[0].Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range d.DataPoints {
					hit, _ := point.Attributes.Value("hit")
					got[m.Name+" "+hit.String()] = fmt.Sprint(point.Value)
				}
			case metricdata.Gauge[int64]:
				got[m.Name] = fmt.Sprint(d.DataPoints[0].Value)
			case metricdata.Histogram[float64]:
				got[m.Name] = fmt.Sprintf("%d, %v ms", d.DataPoints[0].Count, d.DataPoints[0].Sum)
			}
		}
	})
	want := map[string]string{
		"assay_pool_takes true": "1", "assay_pool_takes false": "1", "assay_pool_ready": "1", "assay_pool_filling": "0",
		"assay_pool_fill_milliseconds": "2, 20 ms", "assay_pool_wait_milliseconds": "1, 10 ms",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
