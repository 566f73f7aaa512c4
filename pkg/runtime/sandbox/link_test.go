package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/process"
)

// meet returns a link to a guest that this test plays, and the guest's end.
func meet(t *testing.T, hello any) (*Link, *net.UnixConn, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30)) // longer than a socket's path may be
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Listen("unix", dir, "socket", os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	alive := exec.Command("sleep", "1000")
	if err := alive.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := process.Open(alive.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		_ = alive.Wait()
		p.Close()
	})
	t.Chdir(dir)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "socket", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	say(t, conn, hello)
	k, err := Accept(t.Context(), l, p)
	if err == nil {
		t.Cleanup(k.Close)
	}
	return k, conn, err
}

func say(t *testing.T, conn *net.UnixConn, v any) {
	t.Helper()
	frame, ok := v.([]byte)
	if !ok {
		var err error
		if frame, err = guest.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func TestGuestMustIntroduceItself(t *testing.T) {
	for name, hello := range map[string]any{
		"another version": guest.Hello{Version: guest.Version + 1},
		"not a hello":     guest.ExitStatus{Status: 1},
		"not JSON":        []byte("\x00\x00\x00\x02{]"),
		"endless":         []byte("\xff\xff\xff\xff{}"),
	} {
		if _, _, err := meet(t, hello); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestTalkativeGuest checks that a guest that sends more than requested is cut off.
func TestTalkativeGuest(t *testing.T) {
	k, conn, err := meet(t, guest.Hello{Version: guest.Version})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		say(t, conn, guest.ExitStatus{Status: 0})
	}
	select {
	case <-k.Gone:
	case <-time.After(5 * time.Second):
		t.Fatal("still connected")
	}
}

func TestGateRefusesNonsense(t *testing.T) {
	for _, word := range []string{"x", "hh", "", "f\x01\x02\x00\x00\x00"} {
		g, theirs, err := NewGate()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.WriteString(word); err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()
		if pid, err := g.Wait(); err == nil {
			t.Errorf("%q: let process %d in", word, pid)
		}
		g.Close()
	}
}

// TestGateKnowsWhoWaits checks that the kernel, not the child, identifies the process at the gate.
func TestGateKnowsWhoWaits(t *testing.T) {
	g, theirs, err := NewGate()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	child := exec.Command("sh", "-c", "printf h >&3; exec sleep 1000")
	child.ExtraFiles = []*os.File{theirs}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	if pid, err := g.Wait(); err != nil || pid != child.Process.Pid {
		t.Errorf("wait = %d, %v, want %d", pid, err, child.Process.Pid)
	}
}
