package packet

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWithinIsUndone checks that a caller that was answered in time continues with the connection after its
// context ended. A session may confirm its copy before its worker has finished.
func TestWithinIsUndone(t *testing.T) {
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer unix.Close(theirs)
	ctx, cancel := context.WithCancel(t.Context())
	stop := ours.BindContext(ctx)
	cancel()
	buf := make([]byte, 8)
	if _, _, err := ours.Receive(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("it waits after the end of its context: %v", err)
	}
	stop()
	if err := ours.Send([]byte("x")); err != nil {
		t.Errorf("send: %v", err)
	}
	if _, err := unix.Write(theirs, []byte("y")); err != nil {
		t.Fatal(err)
	}
	if n, _, err := ours.Receive(buf); err != nil || string(buf[:n]) != "y" {
		t.Errorf("received %q, %v", buf[:n], err)
	}
}
