package grade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// local is a slot without walls: the host's python3. The tests in test/cheats check walls on the real runtime.
type local struct{}

func (local) Close() {}

func (local) Run(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	dir, err := os.MkdirTemp("", "grade")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, f := range a.Files {
		if err := laid(ctx, dir, f); err != nil {
			return nil, err
		}
	}
	argv, stdin := []string{"python3", "-B"}, ""
	if s := a.Script; s != nil {
		argv, stdin = append(argv, s.Path), string(s.Stdin)
	} else {
		argv, stdin = slices.Clone(a.Program.Command.Argv), a.Program.Command.Stdin
	}
	for i, arg := range argv {
		if strings.HasPrefix(arg, "/workspace/") || strings.HasPrefix(arg, caseDir+"/") {
			argv[i] = filepath.Join(dir, filepath.Base(arg))
		}
	}
	p, err := newProgram(ctx, a, argv...)
	if err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Stdin = dir, strings.NewReader(stdin)
	if a.Stdin != nil {
		p.cmd.Stdin = a.Stdin
	}
	if a.Stdout != nil {
		p.cmd.Stdout = a.Stdout
	} else if a.Output != nil {
		p.cmd.Stdout = io.MultiWriter(&p.out, a.Output)
	}
	if err = p.start(); err == nil && a.Begun != nil {
		a.Begun()
	}
	for _, f := range []*os.File{a.Stdin, a.Stdout} {
		if f != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	rep, err := p.Wait()
	if err == nil && a.Collect != nil {
		err = collected(ctx, filepath.Join(dir, filepath.Base(feedbackDir)), a.Collect)
	}
	return rep, err
}

// laid writes a file to the path in argv: feedback files to their own directory, all others to one.
func laid(ctx context.Context, dir string, f runtime.File) error {
	if filepath.Dir(f.Path) == feedbackDir {
		dir = filepath.Join(dir, filepath.Base(feedbackDir))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	data := f.Data
	if data == nil && f.Open != nil {
		r, err := f.Open(ctx)
		if err != nil {
			return err
		}
		if data, err = io.ReadAll(r); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, filepath.Base(f.Path)), data, 0o600)
}

func collected(ctx context.Context, dir string, take runtime.Collector) error {
	files, _ := os.ReadDir(dir) // there may be none
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		if err := take(ctx, filepath.Join(feedbackDir, f.Name()), int64(len(data)), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	return nil
}

func (local) Start(ctx context.Context, a runtime.Attempt) (runtime.Process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), ""), os.NewFile(uintptr(fds[1]), "")
	defer ours.Close()
	defer theirs.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	served := python.Services()[a.Service]
	p, err := newProgram(ctx, a, "python3", "-B", "-c", fmt.Sprintf("import %[1]s; %[1]s.%[2]s(5)", served.Module, served.Function))
	if err != nil {
		return nil, err
	}
	p.cmd.ExtraFiles = []*os.File{null, null, theirs}
	if a.Link != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, a.Link)
	}
	if p.conn, err = net.FileConn(ours); err != nil {
		return nil, err
	}
	return p, p.start()
}

// program is a process of the host. It implements runtime.Process.
type program struct {
	cmd       *exec.Cmd
	ctx       context.Context
	cancel    context.CancelFunc
	conn      net.Conn
	done      chan struct{} // closed at its end
	rep       *runtime.Report
	out, errs bytes.Buffer
}

func newProgram(ctx context.Context, a runtime.Attempt, argv ...string) (*program, error) {
	modules, err := filepath.Abs("../../../guest/python")
	if err != nil {
		return nil, err
	}
	p := &program{done: make(chan struct{}), rep: &runtime.Report{StartedAt: time.Now()}}
	p.ctx, p.cancel = context.WithTimeout(ctx, a.Plan.Policy.Wall.D())
	p.cmd = exec.CommandContext(p.ctx, argv[0], argv[1:]...)
	p.cmd.Env = append(os.Environ(), "PYTHONPATH="+modules)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = &p.out, &p.errs, time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) }
	return p, nil
}

// start starts the process in a group with its children.
func (p *program) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
		_ = p.cmd.Cancel()
	}()
	return nil
}

func (p *program) Conn() net.Conn { return p.conn }

func (p *program) Stop() { _ = p.cmd.Cancel() }

func (p *program) Wait() (*runtime.Report, error) {
	defer p.cancel()
	<-p.done
	rep := p.rep
	rep.Stdout = job.Output{Text: p.out.String(), Bytes: int64(p.out.Len())}
	rep.Stderr = job.Output{Text: p.errs.String(), Bytes: int64(p.errs.Len())}
	code := p.cmd.ProcessState.ExitCode()
	rep.ExitCode, rep.Outcome = &code, job.Succeeded
	switch {
	case errors.Is(context.Cause(p.ctx), runtime.ErrCanceled):
		rep.Outcome = job.OutcomeCanceled
	case p.ctx.Err() != nil:
		rep.Outcome = job.TimedOut
	case code > 0:
		rep.Outcome = job.Failed
	case code < 0 && p.conn == nil:
		rep.Outcome = job.Signaled
	}
	if p.conn != nil {
		_ = p.conn.Close()
	}
	return rep, nil
}

// run grades tests without walls.
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
		Checker: builtOf(t, spec.CheckerCode()),
		Tests:   spec,
		Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: p}},
		Acquire: func(context.Context, string, string) (runtime.Slot, error) { return local{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// builtOf returns the program of a checker in Python.
func builtOf(t *testing.T, c *job.Code) *Built {
	t.Helper()
	if c == nil {
		return nil
	}
	b := &Built{Solution: Solution{Argv: func(job.Size) []string { return []string{"python3", "/workspace/main.py"} }, Missing: func(*runtime.Report) error { return nil }},
		Files: []runtime.File{{Path: "/workspace/main.py", Data: []byte(c.Source)}}}
	if c.Language != "python" {
		b.Problem = "it does not compile"
	}
	return b
}
