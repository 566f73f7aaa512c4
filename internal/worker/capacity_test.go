package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

func TestCapacityBoundsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(100, 0, 2, job.GiB)
		ctx := t.Context()
		half := need{1000, int64(256 * job.MiB)}
		first, second := mustEnter(t, c, half), mustEnter(t, c, half)
		var large *stay
		got := make(chan string, 3)
		go func() { large, _ = c.enter(ctx, need{2000, 1}); got <- "large" }()
		synctest.Wait()
		go func() { _, _ = c.enter(ctx, need{1, 1}); got <- "small" }()
		synctest.Wait()
		first.leave()
		synctest.Wait()
		select {
		case who := <-got:
			t.Fatalf("%s was let in: nobody may overtake, and the large one does not fit yet", who)
		default:
		}
		second.leave()
		if who := <-got; who != "large" {
			t.Fatalf("%s came first", who)
		}
		large.leave()
		if who := <-got; who != "small" {
			t.Fatalf("got %s", who)
		}
	})
}

func mustEnter(t *testing.T, c *capacity, n need) *stay {
	t.Helper()
	room, err := c.enter(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// A job that runs for long keeps its memory, and no core or slot from the next; nor do more than
// the most that may.
func TestLongRunningJobsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(2, 3, 2, 1000)
		if n := c.hold(9); n != 2 {
			t.Fatalf("hold = %d, want 2", n)
		}
		one := need{1000, 200}
		var rooms []*stay
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
		if c.old != 3 || c.used != (need{1000, 800}) || c.oldMem != 600 || c.longRunning() != 3 {
			t.Errorf("%d run for long, with %d bytes; used %+v", c.old, c.oldMem, c.used)
		}
		rooms[0].leave()
		time.Sleep(2 * youngFor)
		if c.old != 3 {
			t.Errorf("%d run for long after one has left, want 3", c.old)
		}
		for _, r := range rooms[1:] {
			r.leave()
		}
		if c.used != (need{}) || c.old != 0 || c.oldMem != 0 {
			t.Errorf("at the end: used %+v, %d run for long", c.used, c.old)
		}
	})
}

func TestCapacityWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(10, 0, 1, 0)
		held := mustEnter(t, c, need{1000, 0})
		ctx, end := context.WithCancelCause(t.Context())
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[0] = c.enter(ctx, need{1000, 0}) })
		synctest.Wait()
		wg.Go(func() { _, errs[1] = c.enter(t.Context(), need{500, 0}) })
		synctest.Wait()
		end(errDrained)
		synctest.Wait()
		held.leave()
		wg.Wait()
		if !errors.Is(errs[0], errDrained) || errs[1] != nil {
			t.Errorf("enter = %v and %v", errs[0], errs[1])
		}
	})
}

func TestCapacityTakesJobsLargerThanItsCores(t *testing.T) {
	c := newCapacity(10, 0, 2, job.GiB)
	mustEnter(t, c, need{64000, 1}).leave()
	if c.used != (need{}) {
		t.Errorf("used = %+v after everybody left", c.used)
	}
	if !c.tooLarge(need{1, int64(2 * job.GiB)}) || c.tooLarge(need{64000, 1}) {
		t.Error("only memory makes a job too large")
	}
}

func TestFetchesAreSizedByTheJobsOfLate(t *testing.T) {
	c := newCapacity(100, 0, 8, 0)
	n := c.hold(100)
	if n != 16 { // default jobs of one core, as many again ahead
		t.Fatalf("hold = %d, want 16", n)
	}
	c.free(n)
	for range 100 {
		c.learn(need{4000, 0}, time.Hour)
	}
	if n := c.hold(100); n != 2 { // four cores each, long: no more than can run
		t.Errorf("hold = %d, want 2", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.waitForRoom(ctx); err == nil {
		t.Error("there is room")
	}
	if unbounded := newCapacity(512, 0, 0, 0); unbounded.room() != 512 {
		t.Errorf("without bounds there is room for %d, want every slot", unbounded.room())
	}
}

// What is held ahead of what runs is bounded by how long it takes to run.
func TestJobsAreHeldAheadByTheirTime(t *testing.T) {
	for _, tt := range []struct {
		typical time.Duration
		room    int
	}{
		{4900 * time.Microsecond, 22}, // two at once, ten times in a row
		{19 * time.Millisecond, 7},
		{200 * time.Millisecond, 4}, // one each is held in any case
		{2 * time.Second, 2},
		{0, 64}, // no more than the slots
	} {
		c := newCapacity(64, 0, 2, 0)
		for range 200 {
			c.learn(need{1000, 0}, tt.typical)
		}
		if got := c.room(); got != tt.room {
			t.Errorf("jobs of %v: room for %d, want %d", tt.typical, got, tt.room)
		}
	}
}

// Slots of an occupied worker come free one by one: it does not pull for each.
func TestPullsOfAnOccupiedWorkerGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{}
		w.pulled.Store(time.Now().UnixNano())
		waits := func(what string, want time.Duration) {
			t.Helper()
			began := time.Now()
			w.gatherRoom(t.Context())
			if d := time.Since(began); d != want {
				t.Errorf("%s waits for %v before it pulls again, want %v", what, d, want)
			}
		}
		waits("an idle worker", 0)
		w.underway.Store(occupiedBy)
		waits("an occupied worker", pullRest)
		waits("an occupied worker that has rested", 0)
	})
}

// Jobs that were short become long: what was held ahead does not wait behind them
// for ever, and no more is fetched to share that fate.
func TestHeldJobsLeaveALineThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(64, 0, 2, 0)
		one := need{1000, 0}
		for range 200 {
			c.learn(one, time.Millisecond)
		}
		n := c.hold(16)
		if n != 16 {
			t.Fatalf("hold = %d, want 16", n)
		}
		ends := make(chan error, n)
		for range n {
			go func() {
				room, err := c.enter(t.Context(), one)
				if err == nil {
					time.Sleep(time.Minute)
					room.leave()
				}
				c.free(1)
				ends <- err
			}()
		}
		began := time.Now()
		for range n - 4 {
			if err := <-ends; !errors.Is(err, errQueueFull) {
				t.Fatalf("a job that waited ended with %v, want %v", err, errQueueFull)
			}
		}
		if d := time.Since(began); d > 2*shortRun {
			t.Errorf("they waited for %v", d)
		}
		if room := c.room(); room > 0 {
			t.Errorf("there is room for %d more, while nobody has come further", room)
		}
		for range 4 { // two run, and two are next
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if c.used != (need{}) || c.held != 0 || len(c.waiting) != 0 {
			t.Errorf("at the end: used %+v, %d held, %d waiting", c.used, c.held, len(c.waiting))
		}
	})
}

// However jobs come, wait, give up and leave: what is used never exceeds the
// total, and all of it is free at the end.
func TestCapacityNeverOvercommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCapacity(8, 0, 4, 1000)
		var wg sync.WaitGroup
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			n := need{rapid.Int64Range(0, 9000).Draw(t, "milli"), rapid.Int64Range(0, 1000).Draw(t, "mem")}
			impatient := rapid.Bool().Draw(t, "impatient")
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if impatient {
					go cancel()
				}
				room, err := c.enter(ctx, n)
				if err != nil {
					return
				}
				c.mu.Lock()
				if c.used.milli > c.total.milli || c.used.mem > c.total.mem {
					t.Errorf("used %+v of %+v", c.used, c.total)
				}
				c.mu.Unlock()
				room.leave()
			})
		}
		wg.Wait()
		if c.used != (need{}) || len(c.waiting) != 0 {
			t.Fatalf("at the end: used %+v, %d waiting", c.used, len(c.waiting))
		}
	})
}
