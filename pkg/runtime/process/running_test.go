package process

import (
	"os"
	"os/exec"
	goruntime "runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Signals that this program gets, as the Go runtime sends itself, do not make another process look dead.
func TestRunningWhateverSignalsCome(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	tid, done := unix.Gettid(), make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
			}
		}
	}()
	for n := range 50_000 {
		if !p.Running() {
			t.Fatalf("it is not running, look %d says", n)
		}
	}
}
