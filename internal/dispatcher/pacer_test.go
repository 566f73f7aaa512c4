package dispatcher

import (
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		past time.Duration // since the last pass
		o    observed
		look bool
		wait time.Duration
	}{
		"nothing happened":                {past: 300 * ms, wait: 700 * ms},
		"nothing happened for long":       {past: 1000 * ms, look: true},
		"asked":                           {past: 1 * ms, o: observed{asked: true}, look: true},
		"asked while claims gather":       {past: 20 * ms, o: observed{asked: true, rest: 75 * ms}, wait: 55 * ms},
		"asked, and they have":            {past: 75 * ms, o: observed{asked: true, rest: 75 * ms}, look: true},
		"asked, and most is taken":        {past: 20 * ms, o: observed{asked: true, most: true, rest: 75 * ms}, look: true},
		"most is taken, and none is left": {past: 20 * ms, o: observed{most: true, rest: 75 * ms}, wait: 980 * ms},
	} {
		c.o.looked, c.o.every = time.Unix(1000, 0), time.Second
		if look, wait := next(c.o.looked.Add(c.past), c.o); look != c.look || wait != c.wait {
			t.Errorf("%s: %v, %v; want %v, %v", name, look, wait, c.look, c.wait)
		}
	}
}

func TestRestAfter(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		l     look
		paces map[string]float64
		want  time.Duration
	}{
		"nobody works":                    {want: restTime},
		"at pace":                         {look{held: map[string]time.Duration{"p": 40 * ms}}, map[string]float64{"p": atPace}, 30 * ms},
		"at pace, with a long window":     {look{held: map[string]time.Duration{"p": time.Second}}, map[string]float64{"p": 9999}, restTime},
		"slower":                          {look{held: map[string]time.Duration{"p": time.Second}}, map[string]float64{"p": atPace - 1}, 0},
		"slower, with a backlog":          {look{held: map[string]time.Duration{"p": time.Second}, behind: map[string]bool{"p": true}}, map[string]float64{"p": backlog}, restTime},
		"slow, with a backlog":            {look{held: map[string]time.Duration{"p": time.Second}, behind: map[string]bool{"p": true}}, map[string]float64{"p": backlog - 1}, 0},
		"one of two is idle":              {look{held: map[string]time.Duration{"p": time.Second}}, map[string]float64{"p": atPace, "q": 0}, 0},
		"the shortest window of two":      {look{held: map[string]time.Duration{"p": 80 * ms, "q": 20 * ms}}, map[string]float64{"p": atPace, "q": atPace}, 15 * ms},
		"a pool that was offered nothing": {look{held: map[string]time.Duration{"p": 80 * ms}}, map[string]float64{"p": atPace, "q": atPace}, 0},
	} {
		if got := restAfter(&c.l, c.paces); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestPacerAsks checks that an event leads to a pass only if the pass could find jobs.
func TestPacerAsks(t *testing.T) {
	t.Parallel()
	asks := func(p *pacer, f func()) bool {
		p.begin(time.Now())
		f()
		select {
		case <-p.asks:
			return true
		default:
			return false
		}
	}
	p := newPacer(time.Hour)
	claim, end := func() { p.took("p", 1) }, p.noteEnd
	if asks(p, claim) || asks(p, end) {
		t.Error("a claim or an end leads to a look at an empty queue")
	}
	if !asks(p, p.woke) || !asks(p, claim) {
		t.Error("what is queued, or a claim while more is, leads to none")
	}
	p.drained()
	if asks(p, func() { p.settled(true) }) || asks(p, claim) {
		t.Error("a claim leads to a look when nothing is left")
	}
	if !asks(p, func() { p.settled(false) }) || !asks(p, end) {
		t.Error("an end leads to none while tenants run all they may")
	}
	if asks(p, func() { p.settled(false) }) {
		t.Error("nothing happened, and there is another look")
	}
}
