package pg

import (
	"context"
	"errors"
	"testing"
)

func TestShare(t *testing.T) {
	t.Parallel()
	for conns, want := range map[int32]int{1: 0, 2: 1, 4: 3, 16: 12} {
		if got := cap(newShare(conns).places); got != want {
			t.Errorf("of %d connections %d are shared, want %d", conns, got, want)
		}
	}
	s := newShare(2)
	inside, leave, err := s.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := s.enter(inside); err != nil { // or a nested call would wait for its own caller
		t.Errorf("within: %v", err)
	} else {
		again()
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.enter(over); !errors.Is(err, context.Canceled) {
		t.Errorf("beside: %v, want to have waited", err)
	}
	if s.waited.Load() != 1 || s.gaveUp.Load() != 1 || s.nanos.Load() == 0 {
		t.Errorf("%d waits for %d ns, of which %d were given up; want 1, some and 1", s.waited.Load(), s.nanos.Load(), s.gaveUp.Load())
	}
	leave()
	if _, leave, err := s.enter(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	} else {
		leave()
	}
}
