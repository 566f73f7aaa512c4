package dispatcher

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newClaimRate()
		if got := p.of("p"); got != 0 {
			t.Errorf("at rest: %v", got)
		}
		p.add("p", 100)
		if got := p.of("p"); got != 200 {
			t.Errorf("waking up: %v, want what this half second has at least", got)
		}
		time.Sleep(rateEvery)
		if got := p.of("p"); got != 200 {
			t.Errorf("half a second later: %v", got)
		}
		if got := p.of("q"); got != 0 {
			t.Errorf("another pool: %v", got)
		}
		time.Sleep(rateEvery)
		if got := p.of("p"); got != 0 {
			t.Errorf("at rest again: %v", got)
		}
	})
}

func TestWatchersAreForgotten(t *testing.T) {
	t.Parallel()
	e := newEvents(nil, slog.New(slog.DiscardHandler))
	a, stopA := e.watch("1")
	b, stopB := e.watch("1")
	c, stopC := e.watch("2")
	e.notify("1")
	e.notify("1") // hints do not pile up and do not block
	if len(a) != 1 || len(b) != 1 || len(c) != 0 {
		t.Errorf("hints: %d %d %d", len(a), len(b), len(c))
	}
	stopA()
	stopA()
	<-b
	e.notify("1")
	if len(b) != 1 {
		t.Error("a watcher went with another")
	}
	stopB()
	stopC()
	if len(e.watchers) != 0 {
		t.Errorf("%d watchers are left", len(e.watchers))
	}
}
