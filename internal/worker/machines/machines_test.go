package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest/processes"
	"github.com/assay-run/assay/internal/worker/journal"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// asServer makes this test binary the server of a machine.
const asServer = "MACHINES_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // like process 1
		panic(err)
	}
	inherited := os.NewFile(3, "conn")
	conn, err := net.FileConn(inherited)
	if err = errors.Join(err, inherited.Close()); err == nil {
		err = processes.Serve(conn)
	}
	if err != nil {
		os.Exit(1)
	}
}

// machine is a real server of programs in a process of this host, without a sandbox around it.
type machine struct {
	conn  net.Conn
	cmd   *exec.Cmd
	close sync.Once

	mu    sync.Mutex
	usage runtime.MachineUsage
}

func (m *machine) Conn() net.Conn                   { return m.conn }
func (m *machine) ImageConfig() runtime.ImageConfig { return runtime.ImageConfig{} }

func (m *machine) Usage() (runtime.MachineUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage, nil
}

// killed counts a process that the kernel killed for want of memory.
func (m *machine) killed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage.OOMKills++
}

func (m *machine) Close() {
	m.close.Do(func() {
		for range 100 { // as the kernel kills the processes of a pid namespace
			out, _ := exec.Command("pgrep", "-P", fmt.Sprint(m.cmd.Process.Pid)).Output()
			if len(out) == 0 {
				break
			}
			for pid := range strings.FieldsSeq(string(out)) {
				var n int
				_, _ = fmt.Sscan(pid, &n)
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
			time.Sleep(2 * time.Millisecond)
		}
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		_ = m.conn.Close()
	})
}

// open opens a sandbox.
func open(t *testing.T, c Config) (*Sandbox, *machine) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	m := &machine{cmd: exec.Command(os.Args[0])}
	if m.conn, err = net.FileConn(ours); err != nil {
		t.Fatal(err)
	}
	m.cmd.Env, m.cmd.ExtraFiles = append(os.Environ(), asServer+"=1"), []*os.File{theirs}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Journal == 0 {
		c.Journal, c.Running, c.Finished = 16<<20, 10, 10
	}
	s := New(m, c)
	t.Cleanup(func() { s.Close("the test is over") })
	return s, m
}

// shell is a command that runs a script.
func shell(id, script string) Spec {
	return Spec{ID: id, Command: processes.Command{Argv: []string{"/bin/sh", "-c", script}, Dir: "/tmp", Env: []string{"PATH=" + os.Getenv("PATH")}}}
}

func start(t *testing.T, s *Sandbox, spec Spec) *Execution {
	t.Helper()
	e, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// read reads a journal after an entry to its end. It returns the streams' data and the end.
func read(t *testing.T, e *Execution, after int64) (out map[journal.Kind]string, end End) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := e.Journal.Reader(after)
	if err != nil {
		t.Fatal(err)
	}
	out = map[journal.Kind]string{}
	for {
		entry, err := r.Next(ctx)
		if err == io.EOF {
			return out, end
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry.Kind != journal.End {
			out[entry.Kind] += string(entry.Data)
			continue
		}
		if err := json.Unmarshal(entry.Data, &end); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEnds(t *testing.T) {
	s, m := open(t, Config{})
	code := func(n int) *int { return &n }
	limited := shell("limited", "echo begun; setsid sleep 305 & sleep 306")
	limited.Limit = 300 * time.Millisecond
	asks := shell("asked", "trap 'exit 9' TERM; echo begun; while :; do sleep 0.01; done")
	asks.Limit = time.Minute
	for _, x := range []struct {
		spec    Spec
		meddle  func(*Execution)
		reason  Reason
		code    *int
		signal  string
		message string
	}{
		{shell("exits", "echo begun; exit 7"), nil, Exited, code(7), "", "code 7"},
		{shell("succeeds", "echo begun"), nil, Exited, code(0), "", "code 0"},
		{shell("signaled", "echo begun; kill -SEGV $$"), nil, Signaled, nil, "SIGSEGV", "SIGSEGV"},
		{shell("killed", "echo begun; kill -KILL $$"), nil, Signaled, nil, "SIGKILL", "SIGKILL"},
		{asks, func(e *Execution) { _ = e.Signal(int(syscall.SIGTERM), false) }, Exited, code(9), "", "code 9"},
		{limited, nil, TimedOut, nil, "SIGKILL", "limit of 300ms"},
		{shell("memory", "echo begun; sleep 60"), func(e *Execution) { m.killed(); _ = e.Signal(9, false) }, OutOfMemory, nil, "SIGKILL", "memory limit"},
		{shell("child", "echo begun; sleep 0.3; exit 137"), func(*Execution) { m.killed() }, Exited, code(137), "", "killed 1 processes"},
	} {
		e := start(t, s, x.spec)
		if x.meddle != nil {
			r, err := e.Journal.Reader(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.meddle(e)
		}
		out, end := read(t, e, 0)
		same := end.ExitCode == nil && x.code == nil || end.ExitCode != nil && x.code != nil && *end.ExitCode == *x.code
		if out[journal.Stdout] != "begun\n" || end.Reason != x.reason || !same || end.Signal != x.signal || !strings.Contains(end.Message, x.message) || end.WallMS <= 0 {
			t.Errorf("%s: %q, %+v", x.spec.ID, out, end)
		}
		<-e.Over()
		if got := e.End(); got == nil || got.Message != end.Message {
			t.Errorf("%s: %+v; the journal has %+v", x.spec.ID, got, end)
		}
	}
	if out, _ := exec.Command("pgrep", "-f", "sleep 30[56]").Output(); len(out) > 0 {
		t.Errorf("processes of the timed out command live: %s", out)
	}
}

// A client that was disconnected reads the rest, and all readers read the same.
func TestReadAgain(t *testing.T) {
	s, _ := open(t, Config{})
	e := start(t, s, shell("counts", "for i in $(seq 2000); do echo line $i; done; echo bye >&2"))
	want := ""
	for i := range 2000 {
		want += fmt.Sprintf("line %d\n", i+1)
	}
	r, err := e.Journal.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rest, _ := read(t, e, first.Seq)
	rest[first.Kind] = string(first.Data) + rest[first.Kind]
	whole, end := read(t, e, 0)
	if rest[journal.Stdout] != want || whole[journal.Stdout] != want || whole[journal.Stderr] != "bye\n" || rest[journal.Stderr] != "bye\n" || end.Reason != Exited {
		t.Errorf("%d bytes and %d; want %d; %+v", len(rest[journal.Stdout]), len(whole[journal.Stdout]), len(want), end)
	}
}

// Starting an execution again starts nothing.
func TestStartAgain(t *testing.T) {
	s, _ := open(t, Config{})
	file := t.TempDir() + "/starts"
	spec := shell("once", "echo x >> "+file+"; sleep 0.2")
	var all sync.WaitGroup
	var mu sync.Mutex
	found := map[*Execution]bool{}
	for range 8 {
		all.Go(func() {
			e := start(t, s, spec)
			<-e.Over()
			mu.Lock()
			defer mu.Unlock()
			found[e] = true
		})
	}
	all.Wait()
	if text, err := os.ReadFile(file); err != nil || string(text) != "x\n" || len(found) != 1 {
		t.Errorf("%q, %v, %d executions", text, err, len(found))
	}
	if e, err := s.Execution("once"); err != nil || !found[e] {
		t.Errorf("%v, %v", e, err)
	}
	refused := shell("refused", "")
	refused.Command.Argv = []string{"no-such-program"}
	for range 2 {
		_, err := s.Start(t.Context(), refused)
		if refusal := new(processes.Refusal); !errors.As(err, &refusal) || refusal.Reason != processes.NoProgram {
			t.Errorf("a missing program: %v", err)
		}
	}
	if _, err := s.Execution("refused"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("a refused execution: %v", err)
	}
}

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir, Journal: journal.MinLimit, Running: 2, Finished: 3})
	a := start(t, s, shell("a", "sleep 300"))
	b := start(t, s, shell("b", "sleep 300"))
	if _, err := s.Start(t.Context(), shell("c", "true")); !errors.Is(err, job.ErrTooMany) || !strings.Contains(err.Error(), "2 commands") {
		t.Errorf("a third command: %v", err)
	}
	_, _ = a.Signal(9, true), b.Signal(9, true)
	<-a.Over()
	<-b.Over()
	for i := range 5 {
		<-start(t, s, shell(fmt.Sprint(i), "echo "+strings.Repeat("x", 1000))).Over()
	}
	kept, err := os.ReadDir(dir)
	if err != nil || len(kept) != 3 {
		t.Errorf("%d journals, %v; want 3", len(kept), err)
	}
	if _, err := s.Execution("1"); !errors.Is(err, job.ErrNotFound) || !strings.Contains(err.Error(), "last 3") {
		t.Errorf("an old execution: %v", err)
	}
	loud := start(t, s, shell("loud", "head -c 10000000 /dev/zero"))
	out, end := read(t, loud, 0)
	if n := len(out[journal.Stdout]); n == 0 || end.Reason != Exited || end.LostBytes != 0 {
		t.Errorf("%d bytes, %+v", n, end)
	}
}

// The end of a machine ends its executions, and says why.
func TestMachineEnds(t *testing.T) {
	s, m := open(t, Config{})
	e := start(t, s, shell("sleeps", "echo begun; sleep 300"))
	pid := e.PID()
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	_ = m.cmd.Process.Kill()
	out, end := read(t, e, 0)
	if end.Reason != Lost || end.ExitCode != nil || !strings.Contains(end.Message, "the first process of the sandbox ended") {
		t.Errorf("%q, %+v", out, end)
	}
	<-s.Over()
	if _, err := s.Start(t.Context(), shell("late", "true")); !errors.Is(err, processes.ErrGone) || !strings.Contains(err.Error(), "first process") {
		t.Errorf("afterwards: %v", err)
	}

	s, _ = open(t, Config{})
	e = start(t, s, shell("sleeps", "sleep 300"))
	r, err := e.Journal.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	s.Close("its deadline has passed")
	if end := e.End(); end == nil || end.Reason != Lost || !strings.Contains(end.Message, "its deadline has passed") {
		t.Errorf("%+v", end)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a journal of a closed sandbox: %v", err)
	}
}

func TestInputAndTerminal(t *testing.T) {
	s, _ := open(t, Config{})
	spec := shell("cat", "cat; echo over >&2")
	spec.Command.Input = true
	e := start(t, s, spec)
	if err := errors.Join(e.Write(t.Context(), []byte("text")), e.CloseInput()); err != nil {
		t.Fatal(err)
	}
	if out, end := read(t, e, 0); out[journal.Stdout] != "text" || out[journal.Stderr] != "over\n" || end.Reason != Exited {
		t.Errorf("%q, %+v", out, end)
	}
	spec = shell("tty", "stty size; read x; stty size")
	spec.Command.Terminal = &processes.Size{Rows: 10, Columns: 20}
	e = start(t, s, spec)
	r, err := e.Journal.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Resize(processes.Size{Rows: 30, Columns: 40}), e.Write(t.Context(), []byte("\n"))); err != nil {
		t.Fatal(err)
	}
	if out, _ := read(t, e, 0); !strings.Contains(out[journal.Terminal], "10 20") || !strings.Contains(out[journal.Terminal], "30 40") {
		t.Errorf("%q", out)
	}
}
