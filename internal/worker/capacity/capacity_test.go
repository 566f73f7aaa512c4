package capacity

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCapacityBoundsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Slots: 100, CPU: 2, Memory: job.GiB})
		ctx := t.Context()
		half := Need{1000, int64(256 * job.MiB)}
		first, second := mustEnter(t, c, half), mustEnter(t, c, half)
		var large *Stay
		got := make(chan string, 3)
		go func() { large, _ = c.Enter(ctx, Need{2000, 1}); got <- "large" }()
		synctest.Wait()
		go func() { _, _ = c.Enter(ctx, Need{1, 1}); got <- "small" }()
		synctest.Wait()
		first.Leave()
		synctest.Wait()
		select {
		case who := <-got:
			t.Fatalf("%s was let in: nobody may overtake, and the large one does not fit yet", who)
		default:
		}
		second.Leave()
		if who := <-got; who != "large" {
			t.Fatalf("%s came first", who)
		}
		large.Leave()
		if who := <-got; who != "small" {
			t.Fatalf("got %s", who)
		}
	})
}

func mustEnter(t *testing.T, c *Capacity, n Need) *Stay {
	t.Helper()
	room, err := c.Enter(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// A long-running job keeps its memory, but frees its core and its slot. No more jobs than the limit
// become long-running.
func TestLongRunningJobsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Slots: 2, LongRunning: 3, CPU: 2, Memory: 1000})
		if n := c.Hold(9); n != 2 {
			t.Fatalf("hold = %d, want 2", n)
		}
		one := Need{1000, 200}
		var rooms []*Stay
		for i := range 4 {
			began := time.Now()
			rooms = append(rooms, mustEnter(t, c, one))
			want := time.Duration(0)
			if i >= 2 {
				want = youngFor
			}
			if d := time.Since(began); d > want {
				t.Errorf("job %d waited for %v, want %v", i, d, want)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if c.old != 3 || c.used != (Need{1000, 800}) || c.oldMem != 600 || c.LongRunning() != 3 {
			t.Errorf("%d run for long, with %d bytes; used %+v", c.old, c.oldMem, c.used)
		}
		rooms[0].Leave()
		time.Sleep(2 * youngFor)
		synctest.Wait()
		if c.old != 3 {
			t.Errorf("%d run for long after one has left, want 3", c.old)
		}
		for _, r := range rooms[1:] {
			r.Leave()
		}
		if c.used != (Need{}) || c.old != 0 || c.oldMem != 0 {
			t.Errorf("at the end: used %+v, %d run for long", c.used, c.old)
		}
	})
}

func TestCapacityWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Slots: 10, CPU: 1})
		held := mustEnter(t, c, Need{1000, 0})
		ctx, end := context.WithCancelCause(t.Context())
		errOver := errors.New("over")
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[0] = c.Enter(ctx, Need{1000, 0}) })
		synctest.Wait()
		wg.Go(func() { _, errs[1] = c.Enter(t.Context(), Need{500, 0}) })
		synctest.Wait()
		end(errOver)
		synctest.Wait()
		held.Leave()
		wg.Wait()
		if !errors.Is(errs[0], errOver) || errs[1] != nil {
			t.Errorf("enter = %v and %v", errs[0], errs[1])
		}
	})
}

func TestCapacityTakesJobsLargerThanItsCores(t *testing.T) {
	c := New(Limits{Slots: 10, CPU: 2, Memory: job.GiB})
	mustEnter(t, c, Need{64000, 1}).Leave()
	if c.used != (Need{}) {
		t.Errorf("used = %+v after everybody left", c.used)
	}
	if !c.TooLarge(Need{1, int64(2 * job.GiB)}) || c.TooLarge(Need{64000, 1}) {
		t.Error("only memory makes a job too large")
	}
}

func TestFetchesAreSizedByTheJobsOfLate(t *testing.T) {
	c := New(Limits{Slots: 100, CPU: 8})
	n := c.Hold(100)
	if n != 16 { // default jobs of one core, and as many again ahead
		t.Fatalf("hold = %d, want 16", n)
	}
	c.Free(n)
	for range 100 {
		c.learn(Need{4000, 0}, time.Hour)
	}
	if n := c.Hold(100); n != 2 { // four cores each, long: no more than can run
		t.Errorf("hold = %d, want 2", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.WaitForRoom(ctx); err == nil {
		t.Error("there is room")
	}
	if unbounded := New(Limits{Slots: 512}); unbounded.room() != 512 {
		t.Errorf("without bounds there is room for %d, want every slot", unbounded.room())
	}
}

// Jobs are held ahead for a bounded total run time.
func TestJobsAreHeldAheadByTheirTime(t *testing.T) {
	for _, tt := range []struct {
		typical time.Duration
		room    int
	}{
		{4900 * time.Microsecond, 22}, // two at once, ten times in a row
		{19 * time.Millisecond, 7},
		{200 * time.Millisecond, 4}, // at least one each is held
		{2 * time.Second, 2},
		{0, 64}, // no more than the slots
	} {
		c := New(Limits{Slots: 64, CPU: 2})
		for range 200 {
			c.learn(Need{1000, 0}, tt.typical)
		}
		if got := c.room(); got != tt.room {
			t.Errorf("jobs of %v: room for %d, want %d", tt.typical, got, tt.room)
		}
	}
}

// Jobs become long: the jobs held ahead do not wait behind them for ever, and no more are fetched.
func TestHeldJobsLeaveALineThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Slots: 64, CPU: 2})
		one := Need{1000, 0}
		for range 200 {
			c.learn(one, time.Millisecond)
		}
		n := c.Hold(16)
		if n != 16 {
			t.Fatalf("hold = %d, want 16", n)
		}
		ends := make(chan error, n)
		for range n {
			go func() {
				room, err := c.Enter(t.Context(), one)
				if err == nil {
					time.Sleep(time.Minute)
					room.Leave()
				}
				c.Free(1)
				ends <- err
			}()
		}
		began := time.Now()
		for range n - 4 {
			if err := <-ends; !errors.Is(err, ErrQueueFull) {
				t.Fatalf("a job that waited ended with %v, want %v", err, ErrQueueFull)
			}
		}
		if d := time.Since(began); d > 2*shortRun {
			t.Errorf("they waited for %v", d)
		}
		c.mu.Lock()
		room := c.room()
		c.mu.Unlock()
		if room > 0 {
			t.Errorf("there is room for %d more, while nobody has come further", room)
		}
		for range 4 { // two run, and two are next
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if c.used != (Need{}) || c.held != 0 || len(c.waiting) != 0 {
			t.Errorf("at the end: used %+v, %d held, %d waiting", c.used, c.held, len(c.waiting))
		}
	})
}

// In any order of arriving, waiting, giving up and leaving, the resources in use never exceed the
// total, and all are free at the end.
func TestCapacityNeverOvercommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(Limits{Slots: 8, CPU: 4, Memory: 1000})
		var wg sync.WaitGroup
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			n := Need{rapid.Int64Range(0, 9000).Draw(t, "milli"), rapid.Int64Range(0, 1000).Draw(t, "mem")}
			impatient := rapid.Bool().Draw(t, "impatient")
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if impatient {
					go cancel()
				}
				room, err := c.Enter(ctx, n)
				if err != nil {
					return
				}
				c.mu.Lock()
				if c.used.Milli > c.total.Milli || c.used.Memory > c.total.Memory {
					t.Errorf("used %+v of %+v", c.used, c.total)
				}
				c.mu.Unlock()
				room.Leave()
			})
		}
		wg.Wait()
		if c.used != (Need{}) || len(c.waiting) != 0 {
			t.Fatalf("at the end: used %+v, %d waiting", c.used, len(c.waiting))
		}
	})
}

// An assigned job gets a slot while fewer jobs are under way than are worth holding, even if
// fetches hold all slots.
func TestSeize(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held, underway int
		want           bool
	}{
		"idle":                        {0, 0, true},
		"fetches hold every slot":     {4, 0, true},
		"one is under way":            {4, 3, true},
		"as many as are worth it":     {4, 4, false},
		"one more, for those fetches": {5, 4, false},
	} {
		c := New(Limits{Slots: 4})
		c.held = tt.held
		if got := c.Seize(tt.underway); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
		want := tt.held
		if tt.want {
			want++
		}
		if got := c.Busy(); got != want {
			t.Errorf("%s: %d slots are held, want %d", name, got, want)
		}
	}
}

func TestNeedOf(t *testing.T) {
	t.Parallel()
	if got, want := NeedOf(policy.Policy{CPU: 1.5, Memory: job.GiB}), (Need{1500, int64(job.GiB)}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
