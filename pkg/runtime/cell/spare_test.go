package cell

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/process"
)

// The box of the next copy is made ahead once, is not used if it is dead, and goes
// with the slot that it is for.
func TestSpareBox(t *testing.T) {
	r := newRuntime(t, nil)
	s := acquireCell(t, r)
	s.makeSpare()
	first := spareOf(s)
	if first == nil || !first.sup.Running() {
		t.Fatal("there is none")
	}
	s.makeSpare()
	if spareOf(s) != first {
		t.Error("it was made twice")
	}
	if s.takeSpare() != first {
		t.Error("it is not the next copy's")
	}
	first.Close()
	for range 20 { // it takes its time to die, or does not
		s.makeSpare()
		dead := spareOf(s)
		if err := unix.Kill(dead.sup.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if s.takeSpare() != nil {
			t.Error("a dead one is a copy's")
		}
		eventually(t, "its removal", func() bool { return dead.life.Closed() })
	}
	s.makeSpare()
	last := spareOf(s)
	s.Close()
	eventually(t, "its end, with its slot's", func() bool { return last.life.Closed() })
	s.makeSpare()
	if spareOf(s) != nil {
		t.Error("there is one after the end")
	}
	eventually(t, "the end of all boxes", func() bool { return len(cellLeftovers(t, r)) == 0 })
}

// TestSpareBoxIsGivenUp checks that an unused box does not wait for ever.
func TestSpareBoxIsGivenUp(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.WarmIdle = 200 * time.Millisecond })
	s := acquireCell(t, r)
	defer s.Close()
	s.makeSpare()
	c := spareOf(s)
	if c == nil {
		t.Fatal("there is none")
	}
	eventually(t, "its end", func() bool { return c.life.Closed() })
	if spareOf(s) != nil {
		t.Error("it is there still")
	}
}

// A process that was killed is not taken for a living one, whether it has had the
// time to die or not.
func TestDoomed(t *testing.T) {
	for range 20 {
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := process.Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.Dying() {
			t.Error("dying before it was killed")
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if !p.Dying() {
			t.Error("killed, and not dying")
		}
		_ = cmd.Wait()
		if !p.Dying() {
			t.Error("dead, and not dying")
		}
		p.Close()
	}
}

func acquireCell(t *testing.T, r *Runtime) *slot {
	t.Helper()
	s, err := r.Acquire(t.Context(), cellKeys["python"])
	if err != nil {
		t.Fatal(err)
	}
	return s.(*slot)
}

func spareOf(s *slot) *slot {
	s.making.Lock()
	defer s.making.Unlock()
	return s.spare
}
