package grade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// local is a slot without walls: the host's python3. What needs walls is tested
// in test/cheats, on the real runtime.
type local struct{}

func (local) Close() {}

func (local) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	wall := a.Plan.Policy.Wall.D()
	ctx, cancel := context.WithTimeout(ctx, wall)
	defer cancel()
	rep := &runtime.Report{StartedAt: time.Now()}
	var out, errs bytes.Buffer
	var cmd *exec.Cmd
	if c := a.Program.Command; c != nil {
		dir, err := os.MkdirTemp("", "grade")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		for _, f := range a.Files {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.Path)), f.Data, 0o600); err != nil {
				return nil, err
			}
		}
		argv := append([]string{}, c.Argv...)
		if argv[len(argv)-1] == scriptPath {
			argv[len(argv)-1] = "solution.py"
		}
		cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader([]byte(c.Stdin))
	} else {
		served := python.Services()[a.Service]
		cmd = exec.CommandContext(ctx, "python3", "-B", "-c", fmt.Sprintf("import %[1]s; %[1]s.%[2]s(5)", served.Module, served.Function))
	}
	modules, err := filepath.Abs("../../guest/python")
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH="+modules)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	talked := make(chan error, 1)
	if a.Converse != nil {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		ours, theirs := os.NewFile(uintptr(fds[0]), ""), os.NewFile(uintptr(fds[1]), "")
		defer theirs.Close()
		conn, err := net.FileConn(ours)
		_ = ours.Close()
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		cmd.ExtraFiles = []*os.File{null, null, theirs}
		if a.Link != nil {
			cmd.ExtraFiles = append(cmd.ExtraFiles, a.Link)
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		_ = theirs.Close()
		over := make(chan struct{})
		done := make(chan struct{})
		go func() {
			select {
			case <-over:
			case <-done:
				_ = cmd.Cancel()
			}
		}()
		tctx, stop := context.WithCancel(ctx)
		go func() { talked <- a.Converse(tctx, conn); close(done) }()
		_ = cmd.Wait()
		_ = cmd.Cancel()
		close(over)
		stop()
		if err := <-talked; err != nil {
			return nil, err
		}
	} else if err := cmd.Start(); err != nil {
		return nil, err
	} else {
		_ = cmd.Wait()
	}
	rep.Stdout = job.Output{Text: out.String(), Bytes: int64(out.Len())}
	rep.Stderr = job.Output{Text: errs.String(), Bytes: int64(errs.Len())}
	code := cmd.ProcessState.ExitCode()
	rep.ExitCode, rep.Outcome = &code, job.Succeeded
	switch {
	case ctx.Err() != nil:
		rep.Outcome = job.TimedOut
	case code > 0:
		rep.Outcome = job.Failed
	case code < 0 && a.Converse == nil:
		rep.Outcome = job.Signaled
	}
	return rep, nil
}

// run grades without walls.
func run(t *testing.T, tests string, edit ...func(*policy.Policy)) *runtime.Report {
	t.Helper()
	spec := &job.Tests{}
	if err := json.Unmarshal([]byte(tests), spec); err != nil {
		t.Fatal(err)
	}
	return runTests(t, spec, edit...)
}

func runTests(t *testing.T, spec *job.Tests, edit ...func(*policy.Policy)) *runtime.Report {
	t.Helper()
	p := policy.Default()
	for _, f := range edit {
		f(&p)
	}
	rep, err := Run(t.Context(), Config{
		Tests:   spec,
		Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}},
		Acquire: func(context.Context, string, string) (runtime.Slot, error) { return local{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}
