package containerd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// victimEnv holds the Config of a worker that this test binary plays in a
// process of its own, to be killed.
const victimEnv = "ASSAY_TEST_VICTIM"

// victim starts a program and waits to be killed.
func victim(config string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	ctx := context.Background()
	r, err := New(ctx, cfg)
	if err != nil {
		return err
	}
	s, err := r.Acquire(ctx, taskKey)
	if err != nil {
		return err
	}
	p := policy.Default()
	p.Write = []string{"/workspace", "/data"} // a replaced slot, so that there are mounts of every kind
	plan, err := p.Plan(r.Host())
	if err != nil {
		return err
	}
	fmt.Println("running")
	_, err = s.Run(ctx, runtime.Attempt{Job: job.NewID(), Lease: 1, Plan: plan, Deadline: time.Now().Add(time.Hour),
		Program: job.Program{Command: &job.Command{Argv: []string{"bash", "-c", "setsid sleep 4771 & sleep 4772"}}}})
	return err
}

// processes lists the processes of the host whose command line contains mark.
func processesOf(t *testing.T, mark string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), mark) {
			found = append(found, f)
		}
	}
	return found
}

// eventually polls a condition without an event.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

// A worker that is killed takes its sandboxes with it, and the next one on the
// same state directory removes the rest.
func TestKilledWorker(t *testing.T) {
	cfg := testConfig(t)
	cfg.Warm = 2
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // however this test ends
		_, _ = cmd.Process.Kill(), cmd.Wait()
		if r, err := New(context.Background(), cfg); err != nil {
			t.Error(err)
		} else if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "running\n" {
		t.Fatalf("the victim says %q, %v", line, err)
	}
	eventually(t, "the victim's programs run", func() bool { return len(processesOf(t, "sleep\x00477")) == 2 })
	if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("a second worker on the same state directory: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the programs of a killed worker die", func() bool { return len(processesOf(t, "sleep\x00477")) == 0 })

	r := newRuntime(t, func(c *Config) { *c = cfg; c.Warm = 0 })
	if left := leftovers(t, r); len(left) > 0 {
		t.Errorf("after the sweep: %q", left)
	}
	if out := runOne(t, r, "echo again"); out.Stdout.Text != "again\n" {
		t.Errorf("the next worker: %+v", out)
	}
}

func runOne(t *testing.T, r *Runtime, script string) *runtime.Report {
	t.Helper()
	s, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rep, err := s.Run(t.Context(), attemptOf(t, r, script))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func attemptOf(t *testing.T, r *Runtime, script string) runtime.Attempt {
	t.Helper()
	return runtime.Attempt{Job: job.NewID(), Lease: 1, Plan: runtimetest.Plan(t, r.Host(), policy.Task, nil), Deadline: time.Now().Add(time.Minute),
		Program: job.Program{Command: &job.Command{Argv: []string{"bash", "-c", script}}}}
}

// A sandbox whose guest dies is our failure, never an outcome.
func TestGuestDies(t *testing.T) {
	r := newRuntime(t, nil)
	s, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kill := time.AfterFunc(300*time.Millisecond, func() { _ = s.(*slot).container.Kill() })
	defer kill.Stop()
	if rep, err := s.Run(t.Context(), attemptOf(t, r, "sleep 1000")); !errors.Is(err, sandbox.ErrGuest) {
		t.Errorf("Run = %+v, %v, want errGuest", rep, err)
	}
}

// While containerd is away nothing new starts, what runs goes on, and when it
// is back everything works, cleaning up included.
func TestContainerdRestarts(t *testing.T) {
	daemon := testenv.Containerd(t).Daemon
	r := newRuntime(t, nil)
	s, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		rep *runtime.Report
		err error
	}
	ended := make(chan end, 1)
	a := attemptOf(t, r, "sleep 2; echo survived")
	go func() {
		rep, err := s.Run(t.Context(), a)
		ended <- end{rep, err}
	}()
	if err := daemon.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := <-ended; e.err != nil || e.rep.Stdout.Text != "survived\n" {
		t.Errorf("a program across the restart: %+v, %v", e.rep, e.err)
	}
	s.Close()
	eventually(t, "Acquire works again", func() bool {
		s, err := r.Acquire(t.Context(), taskKey)
		if err == nil {
			s.Close()
		}
		return err == nil
	})
	eventually(t, "everything is cleaned", func() bool { return len(leftovers(t, r)) == 0 })
}

// Close destroys slots that are warm, taken, and running.
func TestCloseLeavesNothing(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 2 })
	taken, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	busy, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	a := attemptOf(t, r, "sleep 4773")
	go func() {
		_, err := busy.Run(t.Context(), a)
		done <- err
	}()
	eventually(t, "the program runs", func() bool { return len(processesOf(t, "sleep\x004773")) > 0 })
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("an attempt on a closed runtime ended well")
	}
	taken.Close()
	busy.Close()
	if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory is still there: %v", err)
	}
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/assay-" + r.instance); len(groups) > 0 {
		t.Errorf("control groups are left: %q", groups)
	}
}

// Systems mount /run, and some mount /tmp, so that nothing there can be
// executed. The sandbox is built anyway, from mounts of our own.
func TestStateOnNoexec(t *testing.T) {
	testenv.Needs(t, "root")
	dir := filepath.Join("/tmp", "assay-noexec-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, "mode=0711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(dir, 0), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	r := newRuntime(t, func(c *Config) { c.StateDir = filepath.Join(dir, "state") })
	if rep := runOne(t, r, "cp /bin/echo /tmp/e && /tmp/e executed"); rep.Stdout.Text != "executed\n" {
		t.Errorf("ran %+v", rep)
	}
}
