package e2e

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// screen is what a terminal has shown.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// sessionPrompt types into `assay session` at a terminal.
func sessionPrompt(t *testing.T, f *fleet) {
	before := f.live(t)
	cmd := exec.Command(filepath.Join(f.bin, "assay"), "--url", f.URL(), "session")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	shown := &screen{}
	go func() { _, _ = io.Copy(shown, tty) }() // until the terminal is gone
	defer func() {
		_ = cmd.Process.Kill()
		_ = tty.Close()
	}()
	defer func() {
		if t.Failed() {
			t.Logf("shown: %q", shown)
		}
	}()
	seen := 0 // of what is shown
	type_ := func(keys, want string) {
		t.Helper()
		if _, err := io.WriteString(tty, keys); err != nil {
			t.Fatal(err)
		}
		eventually(t, want+" is shown", func() bool {
			i := strings.Index(shown.String()[seen:], want)
			if i >= 0 {
				seen += i + len(want)
			}
			return i >= 0
		})
	}
	type_("", ">>> ")
	type_("x = 6\r", ">>> ")
	type_("x * 7\r", "\n42\r\n>>> ")
	type_("def f(n):\r", "... ")
	type_("    return n + 1\r", "... ")
	type_("\r", ">>> ")
	type_("f(x)\r", "\n7\r\n>>> ")
	type_("\x1b[A\r", "\n7\r\n>>> ") // the line before
	type_("1/0\r", "ZeroDivisionError: division by zero\r\n>>> ")
	type_("import time; print('as' + 'leep', flush=True); time.sleep(1000)\r", "\r\n")
	// Its output comes with its end, so that it sleeps is seen elsewhere.
	eventually(t, "the interrupt is heard", func() bool {
		_, _ = io.WriteString(tty, "\x03")
		return strings.Contains(shown.String()[seen:], "interrupted by the client")
	})
	type_("", ">>> ")
	type_("nonsense\x03x\r", "6\r\n>>> ")
	type_("\x04", "")
	if err := cmd.Wait(); err != nil {
		t.Errorf("assay session: %v\n%s", err, shown)
	}
	if after := f.live(t); after != before {
		t.Errorf("%d live sessions after it, %d before", after, before)
	}
}

// live counts the sessions that live.
func (f *fleet) live(t *testing.T) int {
	t.Helper()
	list, err := f.api.Sessions(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
