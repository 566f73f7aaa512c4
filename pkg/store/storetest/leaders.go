package storetest

import (
	"sync"
	"testing"
	"time"
)

// testLeaders checks that a role has one leader at a time, and that its term grows.
func testLeaders(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	lead := func(role, holder string, ttl time.Duration) int64 {
		t.Helper()
		term, err := f.Lead(t.Context(), role, holder, ttl)
		f.must(err)
		return term
	}
	if a, b := lead("r", "a", time.Hour), lead("r", "b", time.Hour); a != 1 || b != 0 {
		t.Errorf("terms %d and %d", a, b)
	}
	if lead("another", "b", time.Hour) != 1 {
		t.Error("roles are not apart")
	}
	if lead("r", "a", time.Hour) != 1 {
		t.Error("the same leader has another term")
	}
	f.must(f.Resign(t.Context(), "r", "b")) // not the leader
	if lead("r", "b", time.Hour) != 0 {
		t.Error("somebody else resigned for the leader")
	}
	f.must(f.Resign(t.Context(), "r", "a"))
	if lead("r", "b", 20*time.Millisecond) != 2 {
		t.Error("not replaced after it resigned")
	}
	f.eventually("being replaced when its time is over", func() bool { return lead("r", "c", time.Hour) == 3 })

	var wg sync.WaitGroup
	won := make(chan int64, 20)
	for _, holder := range []string{"d", "e", "f", "g", "h"} {
		wg.Go(func() {
			term, err := f.Lead(t.Context(), "contested", holder, time.Hour)
			if err != nil {
				t.Error(err)
			}
			won <- term
		})
	}
	wg.Wait()
	close(won)
	n := int64(0)
	for term := range won {
		n += term
	}
	if n != 1 {
		t.Errorf("the terms of five add up to %d", n)
	}
}
