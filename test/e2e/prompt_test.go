package e2e

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// sessionPrompt types into `assay session` at a terminal.
func sessionPrompt(t *testing.T, f *fleet) {
	cmd := exec.Command(filepath.Join(f.bin, "assay"), "--url", f.URL(), "session")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	shown := &testenv.Buffer{}
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
	seen := 0 // offset in the shown text
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
	type_("nonsense_of_prompt = 1\r", ">>> ") // a variable of this session only
	type_("x = 6\r", ">>> ")
	type_("x * 7\r", "\n42\r\n>>> ")
	type_("def f(n):\r", "... ")
	type_("    return n + 1\r", "... ")
	type_("\r", ">>> ")
	type_("f(x)\r", "\n7\r\n>>> ")
	type_("\x1b[A\r", "\n7\r\n>>> ") // the previous line
	type_("1/0\r", "ZeroDivisionError: division by zero\r\n>>> ")
	type_("import time; print('as' + 'leep', flush=True); time.sleep(1000)\r", "\r\n")
	// Its output comes with its end, so other tests check that it sleeps.
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
	if s := f.sessionThatRan(t, "nonsense_of_prompt = 1"); s.State != job.SessionEnded {
		t.Errorf("its session is %s after it", s.State)
	}
}

// sessionThatRan returns the session that executed a line.
func (f *fleet) sessionThatRan(t *testing.T, code string) job.Session {
	t.Helper()
	all, err := f.api.Sessions(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		ran, err := f.api.Executions(t.Context(), s.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range ran.Executions {
			if e.Code == code {
				return s
			}
		}
	}
	t.Fatalf("none of %d sessions executed %q", len(all), code)
	return job.Session{}
}
