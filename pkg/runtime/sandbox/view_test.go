package sandbox

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPin(t *testing.T) {
	cmd := exec.Command("cat") // until its input ends
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	seat, err := allocator.Take(1, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer seat.Leave()
	want := seat.Set()
	if err := pin(cmd.Process.Pid, &Program{cores: want}); err != nil {
		t.Fatal(err)
	}
	var got unix.CPUSet
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &got); err != nil || got != want {
		t.Errorf("bound to %v, %v, want %v", got, err, want)
	}
}
