package dev_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// helperVar makes this test binary start a component in the directory and wait to be killed.
const helperVar = "ASSAY_TEST_START"

func TestMain(m *testing.M) {
	if component, dir, ok := strings.Cut(os.Getenv(helperVar), ":"); ok {
		if err := runHelper(component, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runHelper(component, dir string) error {
	ctx := context.Background()
	var pid int
	switch component {
	case "lock":
		if _, err := dev.Acquire(dir); err != nil {
			return err
		}
	case "postgres":
		p, err := dev.StartPostgres(ctx, dev.PostgresConfig{Dir: dir})
		if err != nil {
			return err
		}
		pid = p.PID()
	case "containerd":
		c, err := dev.StartContainerd(ctx, dev.ContainerdConfig{Dir: dir, BinDir: binDir})
		if err != nil {
			return err
		}
		pid = c.PID()
	}
	fmt.Println(pid)
	select {} // until killed
}

// helper is another process that holds a component.
type helper struct {
	cmd *exec.Cmd
	// childPID is the process id of the component.
	childPID int
}

// startHelper starts a component in another process, and returns when it has started.
func startHelper(t *testing.T, component, dir string) *helper {
	t.Helper()
	if component != "lock" {
		testenv.Needs(t, component)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), helperVar+"="+component+":"+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: cmd}
	t.Cleanup(h.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the helper did not start %s: %v", component, err)
	}
	if _, err := fmt.Sscan(line, &h.childPID); err != nil {
		t.Fatalf("the helper said %q: %v", line, err)
	}
	return h
}

// kill kills the process with SIGKILL.
func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// eventually polls until ok, or fails the test after a long timeout.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(data[max(0, strings.LastIndex(string(data), ")")):]), ") ")
	if !strings.HasPrefix(state, "Z") {
		return true
	}
	// Its first thread has ended. While others run, its files are open and its sockets answer.
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(threads) > 1
}

func uidOf(t *testing.T, pid int) uint32 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// longDir returns a directory whose path is too long for a socket.
func longDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stopContext returns a context for stops at the end of a test, when the test's own context has ended.
func stopContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
