package toll

import (
	"testing"
	"time"
)

// TestRation holds that cheap looks are never delayed, and that dear ones use 2 % of a core in the long run.
func TestRation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cost, every, most time.Duration // of a look; between looks; of all looks of a minute
	}{
		"of a few threads":         {100 * time.Microsecond, 100 * time.Millisecond, 60 * time.Millisecond},
		"of 100 threads":           {1500 * time.Microsecond, 100 * time.Millisecond, 900 * time.Millisecond},
		"of 3,000 threads":         {80 * time.Millisecond, 100 * time.Millisecond, 1300 * time.Millisecond},
		"of a flood":               {10 * time.Microsecond, 20 * time.Microsecond, 1300 * time.Millisecond},
		"that takes long":          {time.Second, 20 * time.Millisecond, 2200 * time.Millisecond},
		"at each tick of 1 ms":     {time.Millisecond, time.Millisecond, 1300 * time.Millisecond},
		"that takes no time":       {0, time.Millisecond, 0},
		"of a minute after a rest": {20 * time.Millisecond, 30 * time.Second, 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m Meter
			var looks int
			begin := time.Now()
			for at := time.Duration(0); at < time.Minute; at += c.every {
				if m.Affords(begin.Add(at)) {
					m.add(&m.looks, begin.Add(at), c.cost)
					looks++
				}
			}
			if m.Spent() > c.most || m.Spent() != time.Duration(looks)*c.cost {
				t.Errorf("%d looks cost %v, want at most %v", looks, m.Spent(), c.most)
			}
			if c.cost*share <= c.every && looks != int((time.Minute+c.every-1)/c.every) {
				t.Errorf("%d looks, which cost less than the ration, want one every %v", looks, c.every)
			}
		})
	}
}

// TestMeasure holds that a meter counts the CPU time of its goroutine alone, and no time in which that waits.
func TestMeasure(t *testing.T) {
	t.Parallel()
	var m Meter
	end := m.Begin()
	time.Sleep(50 * time.Millisecond)
	end()
	slept := m.Spent()
	if slept > 20*time.Millisecond {
		t.Errorf("a sleep of 50 ms cost %v", slept)
	}
	end = m.Begin()
	for began := threadTime(); threadTime()-began < 30*time.Millisecond; {
	}
	end()
	if got := m.Spent() - slept; got < 30*time.Millisecond || got > 200*time.Millisecond {
		t.Errorf("30 ms of work cost %v", got)
	}
	if m.Affords(time.Now()) {
		t.Error("a look is affordable after the credit was used up")
	}
	var none *Meter
	none.Begin()()
	if none.Spent() != 0 || !none.Affords(time.Now()) {
		t.Error("a nil meter counts")
	}
}
