package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
)

// line is a consumer whose deliveries come from a channel.
type line chan *message

func (l line) Fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) (sent int, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for ; sent < n; sent++ {
		select {
		case m := <-l:
			out <- m
			continue
		default:
		}
		select {
		case m := <-l:
			out <- m
		case <-timer.C:
			return sent, nil
		case <-ctx.Done():
			return sent, nil
		}
	}
	return sent, nil
}

// fetched returns the number of deliveries of one fetch, and its duration.
func fetched(t *testing.T, s *sources, n int) (int, time.Duration) {
	t.Helper()
	out, began := make(chan queue.Message, n), time.Now()
	if sent, err := s.fetch(t.Context(), n, time.Minute, out); err != nil || sent != len(out) {
		t.Fatalf("it has sent %d and says %d: %v", len(out), sent, err)
	}
	return len(out), time.Since(began)
}

func TestSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, big := make(line, 10), make(line, 10)
		opened := []string{}
		fail := errors.New("away")
		s := newSources("p", placement.Offer{Memory: 4 * job.GiB}, func(_ context.Context, class string) (queue.Consumer, error) {
			opened = append(opened, class)
			if class == placement.Any {
				return own, fail
			}
			return big, fail
		})
		own <- &message{}
		s.openClasses(t.Context(), []string{"p"}) // before share is called
		s.share(t.Context(), false)               // fails
		if n, took := fetched(t, s, 1); n != 0 || took != time.Minute {
			t.Errorf("before anything is known: %d after %v", n, took)
		}
		fail = nil
		go func() {
			time.Sleep(time.Second)
			s.share(t.Context(), false)
			s.share(t.Context(), false)
		}()
		if n, took := fetched(t, s, 1); n != 0 || took != time.Second {
			t.Errorf("the first source ended the wait with %d after %v", n, took)
		}
		if n, took := fetched(t, s, 1); n != 1 || took != 0 {
			t.Errorf("of any pool alone: %d after %v", n, took)
		}
		if !slices.Equal(opened, []string{placement.Any, placement.Any}) {
			t.Errorf("opened %q", opened)
		}
		opened, fail = nil, errors.New("away")

		heard := []string{"p?memory=2Gi", "p?memory=8Gi", "q?memory=2Gi", "q", "?label.gpu=a"}
		s.openClasses(t.Context(), heard) // fails
		fail = nil
		go func() {
			time.Sleep(time.Second)
			s.openClasses(t.Context(), heard)
			s.openClasses(t.Context(), heard)
		}()
		if n, took := fetched(t, s, 5); n != 0 || took != time.Second {
			t.Errorf("a new source ended the wait with %d after %v", n, took)
		}
		synctest.Wait()
		if !slices.Equal(opened, []string{"p?memory=2Gi", "p?memory=2Gi"}) {
			t.Errorf("opened %q", opened)
		}

		for range 3 {
			own <- &message{}
			big <- &message{}
		}
		if n, took := fetched(t, s, 10); n != 6 || took != 0 {
			t.Errorf("of both: %d after %v", n, took)
		}
		go func() { time.Sleep(2 * time.Second); big <- &message{} }()
		if n, took := fetched(t, s, 10); n != 1 || took != 2*time.Second {
			t.Errorf("waiting at both: %d after %v", n, took)
		}
		if n, took := fetched(t, s, 10); n != 0 || took != time.Minute {
			t.Errorf("of nothing: %d after %v", n, took)
		}
		time.Sleep(forgetClass + time.Second)
		big <- &message{}
		if n, _ := fetched(t, s, 10); n != 0 {
			t.Errorf("%d of a class that is not named any more", n)
		}
	})
}

// With many classes, a worker with little room still receives jobs of each.
func TestMoreSourcesThanRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := map[string]line{}
		s := newSources("p", placement.Offer{Memory: 64 * job.GiB}, func(_ context.Context, class string) (queue.Consumer, error) {
			lines[class] = make(line, 1)
			return lines[class], nil
		})
		s.share(t.Context(), false)
		classes := []string{placement.Any}
		for i := range 10 {
			classes = append(classes, fmt.Sprintf("p?memory=%dGi", 2+i))
		}
		s.openClasses(t.Context(), classes[1:])
		for _, class := range classes {
			began := time.Now()
			go func() {
				time.Sleep(time.Second)
				lines[class] <- &message{}
			}()
			for got := 0; got == 0 && time.Since(began) < time.Hour; {
				got, _ = fetched(t, s, 2)
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("what came for %q after a second was taken after %v", class, took)
			}
		}
	})
}

// A worker that is reserved for images takes no jobs without an image.
func TestReservedSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := make(line, 1)
		l <- &message{}
		var opened []string
		s := newSources("p", placement.Offer{Images: []string{"cuda"}}, func(_ context.Context, class string) (queue.Consumer, error) {
			opened = append(opened, class)
			return l, nil
		})
		s.share(t.Context(), false)
		s.openClasses(t.Context(), []string{"p", "p?memory=1Gi"})
		if n, took := fetched(t, s, 1); n != 0 || took != time.Minute || opened != nil {
			t.Errorf("%d after %v, opened %q", n, took, opened)
		}
		s.openClasses(t.Context(), []string{"?image=cuda"})
		if n, _ := fetched(t, s, 1); n != 1 {
			t.Errorf("%d of its image", n)
		}
	})
}

// A pool that becomes exclusive takes only jobs that name it. When it ceases to be exclusive, it
// takes the others again.
func TestExclusiveSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := map[string]line{}
		for _, class := range []string{placement.Any, "p", "?memory=1Gi", "p?memory=1Gi"} {
			lines[class] = make(line, 10)
		}
		s := newSources("p", placement.Offer{}, func(_ context.Context, class string) (queue.Consumer, error) { return lines[class], nil })
		for _, step := range []struct {
			exclusive bool
			from      map[string]bool
		}{
			{false, map[string]bool{placement.Any: true, "p": true, "?memory=1Gi": true, "p?memory=1Gi": true}},
			{true, map[string]bool{"p": true, "p?memory=1Gi": true}},
			{false, map[string]bool{placement.Any: true, "p": true, "?memory=1Gi": true, "p?memory=1Gi": true}},
		} {
			s.share(t.Context(), step.exclusive)
			s.openClasses(t.Context(), []string{"p", "?memory=1Gi", "p?memory=1Gi"})
			for class, l := range lines {
				l <- &message{}
				n, _ := fetched(t, s, 1)
				if (n == 1) != step.from[class] {
					t.Errorf("exclusive %t: %d of %q", step.exclusive, n, class)
				}
				if n == 0 {
					<-l
				}
			}
		}
	})
}
