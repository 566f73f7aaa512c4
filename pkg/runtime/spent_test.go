package runtime

import (
	"testing"
	"time"
)

// TestPatience: a program that makes progress is never given up, and a program without progress always is.
func TestPatience(t *testing.T) {
	const limit = 2 * time.Second
	most := MostTime(limit)
	for name, c := range map[string]struct {
		own  func(passed time.Duration) time.Duration // the program's own time
		over time.Duration                            // when it is given up; 0: it reaches its limit
	}{
		"a hundredth of a core":        {func(d time.Duration) time.Duration { return d / 100 }, 0},
		"a thousandth of a core":       {func(d time.Duration) time.Duration { return d / 1000 }, 0},
		"all at once, now and then":    {func(d time.Duration) time.Duration { return d.Truncate(most-2*time.Second) / 500 }, 0},
		"no core":                      {func(time.Duration) time.Duration { return 0 }, most},
		"next to no core":              {func(d time.Duration) time.Duration { return d / 10000 }, most},
		"a start, then no core":        {func(d time.Duration) time.Duration { return min(d, limit/2) }, limit/2 + most},
		"a slow start, then no core":   {func(d time.Duration) time.Duration { return min(d/100, limit/2) }, 50*limit + most},
		"waits that are known late":    {func(d time.Duration) time.Duration { return d/100 + d%(3*time.Second)/10 }, 0},
		"late waits, and then no core": {func(d time.Duration) time.Duration { return d % (2 * time.Second) / 10 }, most + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			p := NewPatience(began, limit)
			var over time.Duration
			for passed := time.Second; ; passed += time.Second {
				left := limit - c.own(passed)
				if left <= 0 {
					break
				}
				if p.Over(began.Add(passed), left) {
					over = passed
					break
				}
				if passed > 30*most {
					t.Fatal("the program runs for ever")
				}
			}
			if over != c.over {
				t.Errorf("given up after %v, want %v", over, c.over)
			}
		})
	}
}
