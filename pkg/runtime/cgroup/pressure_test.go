package cgroup

import (
	"testing"
	"time"
)

// TestPressureIsReadRarely: a counter that loses what happens between close readings still shows a busy host as busy.
func TestPressureIsReadRarely(t *testing.T) {
	now, kernel, last := time.Unix(1000, 0), time.Hour, time.Unix(1000, 0)
	p := &pressure{now: func() time.Time { return now }, read: func() (time.Duration, error) {
		if passed := now.Sub(last); passed >= 10*time.Millisecond { // a tick
			kernel += passed
		}
		last = now
		return kernel, nil
	}}
	first, err := p.total()
	if err != nil {
		t.Fatal(err)
	}
	before := first
	for range 1000 {
		now = now.Add(time.Millisecond)
		value, err := p.total()
		if err != nil || value < before {
			t.Fatalf("%v, %v after %v", value, err, before)
		}
		before = value
	}
	if stalled := before - first; stalled < 940*time.Millisecond || stalled > time.Second {
		t.Errorf("the host stalled for %v of a second, want all of it", stalled)
	}
	now = now.Add(time.Second)
	kernel -= time.Second // the host is idle from now on
	value, err := p.total()
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Millisecond)
	if more, err := p.total(); err != nil || more != value {
		t.Errorf("an idle host stalled for %v, %v", more-value, err)
	}
}
