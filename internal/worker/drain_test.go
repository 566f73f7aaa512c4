package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet(), func(c *Config, p *Parts) { c.CPU = 2; c.Slots = 8; c.Grace = 30 * time.Second })
		short, long := b.submit(t, script("sleep=10s")), b.submit(t, script("artifact=/workspace/x:y sleep=1h"))
		b.until("both run", func() bool { return b.rt.Started() == 2 })
		waiting := b.submit(t, script("sleep=1s")) // claimed, but without capacity
		b.until("the third is claimed", func() bool { return b.row(waiting).lease != 0 })
		if err := b.w.Ready(); err != nil {
			t.Errorf("not ready while working: %v", err)
		}
		b.stop()
		began := time.Now()
		if rel := b.released(waiting); rel.Reason != job.ReasonDrained || time.Since(began) > time.Second {
			t.Errorf("what had not begun: %+v after %v", rel, time.Since(began))
		}
		if res := b.recorded(short); res.Outcome != job.Succeeded {
			t.Errorf("what ended in time: %+v", res)
		}
		if rel := b.released(long); rel.Reason != job.ReasonDrained {
			t.Errorf("what was killed: %+v", rel)
		}
		<-b.ended
		if b.w.Ready() == nil {
			t.Error("ready although drained")
		}
		if took := time.Since(began); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("the drain took %v, grace is 30s", took)
		}
		b.mu.Lock()
		if last := b.beats[len(b.beats)-1]; !last.Worker.Draining {
			t.Error("heartbeats did not say that the worker drains")
		}
		b.mu.Unlock()
		late := b.submit(t, script("exit=0"))
		time.Sleep(time.Minute)
		if r := b.row(late); r.claims != 0 {
			t.Error("a drained worker took a job")
		}
		if n := len(b.objectsLeft()); n != 0 {
			t.Errorf("%d objects of the killed attempt remain", n)
		}
	})
}

func TestRunWithNothingToDoEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		time.Sleep(20 * time.Second)
		began := time.Now()
		b.drained()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}
