package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestBatcherTakesWhatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var batches [][]int
		b := newBatcher(func(_ context.Context, items []int) {
			batches = append(batches, slices.Clone(items))
			<-gate
		}, 4, 0, nil)
		go b.run(t.Context())
		b.add(1) // a single item is flushed at once
		synctest.Wait()
		for i := 2; i <= 5; i++ {
			b.add(i)
		}
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		b.add(6)
		b.close()
		close(gate)
		synctest.Wait()
		want := [][]int{{1}, {2, 3, 4, 5}, {6}}
		if !slices.EqualFunc(batches, want, slices.Equal[[]int]) {
			t.Errorf("batches = %v, want %v", batches, want)
		}
	})
}

// Items gather while the batcher rests, and are flushed at once when the rest ends.
func TestBatcherRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var handed [][]int
		batches := func() [][]int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(handed)
		}
		var busy atomic.Bool
		b := newBatcher(func(_ context.Context, items []int) {
			mu.Lock()
			defer mu.Unlock()
			handed = append(handed, slices.Clone(items))
		}, 10, 0, nil)
		const rest = 20 * time.Millisecond
		b.rest = func(int) time.Duration {
			if busy.Load() {
				return rest
			}
			return 0
		}
		go b.run(t.Context())
		busy.Store(true)
		time.Sleep(time.Hour)
		b.add(1) // at once after a long rest
		synctest.Wait()
		b.add(2)
		time.Sleep(rest / 2)
		b.add(3)
		synctest.Wait()
		if got := batches(); len(got) != 1 {
			t.Errorf("batches = %v while it rests", got)
		}
		time.Sleep(rest)
		b.add(4)
		time.Sleep(rest / 4)
		busy.Store(false)
		time.Sleep(restStep)
		synctest.Wait()
		want := [][]int{{1}, {2, 3}, {4}}
		if got := batches(); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
			t.Errorf("batches = %v, want %v", got, want)
		}
		b.close()
	})
}

// Each item is flushed once and in order, regardless of the sizes. No batch exceeds a limit unless it is
// a single item.
func TestBatcherLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(rapid.IntRange(0, 30)).Draw(t, "sizes")
		limit, maxBytes := rapid.IntRange(1, 5).Draw(t, "limit"), rapid.IntRange(0, 40).Draw(t, "bytes")
		var got []int
		b := newBatcher(func(_ context.Context, batch []int) {
			sum := 0
			for _, n := range batch {
				sum += n
			}
			if len(batch) > limit || maxBytes > 0 && sum > maxBytes && len(batch) > 1 {
				t.Errorf("batch %v above %d items or %d bytes", batch, limit, maxBytes)
			}
			got = append(got, batch...)
		}, limit, maxBytes, func(n int) int { return n })
		done := make(chan struct{})
		go func() { defer close(done); b.run(context.Background()) }()
		for _, n := range items {
			b.add(n)
		}
		b.close()
		<-done
		if !slices.Equal(got, items) {
			t.Errorf("handed over %v, want %v", got, items)
		}
	})
}

// Slots of an occupied worker become free one by one: it does not pull for each.
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
