package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/worker/awake"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// TestSessions runs the scenarios of live sessions over one fleet.
func TestSessions(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, story := range map[string]func(*testing.T, *fleet){
		"state and output": sessionState, "timed out": sessionTimedOut, "callbacks": sessionCallbacks, "hostile": sessionHostile,
		"shell": sessionShell, "idle": sessionIdle, "fork": sessionFork, "fork over the image": sessionForkOver, "hostile fork": sessionForkHostile,
		"variables": sessionVariables, "files": sessionFiles, "interrupt": sessionInterrupt, "lease": sessionLease,
		"rich outputs": sessionDisplay, "refusals": sessionRefusals, "reset": sessionReset, "helpers": sessionHelpers, "shell state": sessionShellState, "ended": sessionEnded, "imports": sessionImports, "artifacts": sessionArtifacts,
		"fields that a kind cannot have": unfitFields,
		"keys":                           sessionKeys,
		"prompt":                         sessionPrompt, "awake": sessionAwake, "worker killed": sessionWorkerKilled,
	} {
		t.Run(name, func(t *testing.T) { story(t, f) })
	}
}

func (f *fleet) session(t *testing.T, spec job.SessionSpec) job.ID {
	t.Helper()
	s, err := f.api.CreateSession(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func (f *fleet) execute(t *testing.T, id job.ID, want job.Outcome, rq api.ExecuteRequest) *job.Execute {
	t.Helper()
	e, err := f.api.Execute(t.Context(), id, rq)
	if err != nil {
		t.Fatal(err)
	}
	if e.Outcome != want {
		t.Fatalf("%q: outcome %s (%s), want %s; %+v", rq.Code, e.Outcome, e.Message, want, e.Exception)
	}
	return e
}

func code(text string) api.ExecuteRequest { return api.ExecuteRequest{Code: text} }

// sessionAwake checks that processors do not sleep while a client waits.
func sessionAwake(t *testing.T, f *fleet) {
	if _, err := os.Stat(awake.Device); err != nil {
		t.Logf("%v: the worker has nobody to tell", err)
		return
	}
	id := f.session(t, job.SessionSpec{})
	var told atomic.Bool
	go func() {
		for t.Context().Err() == nil && !told.Load() {
			if b, err := os.ReadFile(awake.Device); err == nil && len(b) == 4 && binary.NativeEndian.Uint32(b) == 0 {
				told.Store(true)
			}
		}
	}()
	for range 1000 {
		f.execute(t, id, job.Succeeded, code("1"))
		if told.Load() {
			return
		}
	}
	t.Error("in 1,000 executes processors were never kept from sleeping")
}

func sessionState(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	e := f.execute(t, id, job.Succeeded, code("import os, sys\nx = 20\nprint('a')\nos.system('echo b')\nprint('c', file=sys.stderr)\nx + 1"))
	if e.Value == nil || e.Value.Repr != "21" || e.Stdout.Text != "a\nb\n" || e.Stderr.Text != "c\n" || e.Variables["x"].Repr != "20" {
		t.Errorf("first execute: %+v", e)
	}
	e = f.execute(t, id, job.Exception, code("1 / 0"))
	if e.Exception.Line != 1 || strings.Contains(e.Exception.Traceback, "session") || !e.Alive {
		t.Errorf("exception: %+v", e.Exception)
	}
	if e = f.execute(t, id, job.Succeeded, code("x")); e.Value.Repr != "20" {
		t.Errorf("x = %+v", e.Value)
	}
	e = f.execute(t, id, job.Succeeded, code("print('z' * 1_000_000)"))
	if !e.Stdout.Truncated || e.Stdout.Bytes != 1_000_001 || len(e.Stdout.Text) > 100<<10 || !strings.HasSuffix(e.Stdout.Text, "z\n") {
		t.Errorf("flood: %d bytes, %d kept, truncated %v", e.Stdout.Bytes, len(e.Stdout.Text), e.Stdout.Truncated)
	}
	list, err := f.api.Executions(t.Context(), id, "")
	if err != nil || len(list.Executions) != 4 || list.Executions[2].Code != "x" {
		t.Errorf("recorded: %+v, %v", list, err)
	}
	s, err := f.api.CloseSession(t.Context(), id)
	if err != nil || s.State != job.SessionEnded || s.Outcome != job.Succeeded {
		t.Errorf("closed: %+v, %v", s, err)
	}
	if _, err := f.api.Execute(t.Context(), id, code("x")); !errors.Is(err, job.ErrConflict) {
		t.Errorf("execute after the end: %v, want a conflict", err)
	}
}

func sessionTimedOut(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code("x = 7"))
	for _, loop := range []string{"import time\ntime.sleep(100)", "while True: pass"} {
		e := f.execute(t, id, job.TimedOut, api.ExecuteRequest{Code: loop, Wall: job.Duration(300 * time.Millisecond)})
		if !e.Alive {
			t.Errorf("%q: the session is gone", loop)
		}
	}
	if e := f.execute(t, id, job.Succeeded, code("x")); e.Value.Repr != "7" {
		t.Errorf("x = %+v", e.Value)
	}
	// Code that ignores the interrupt is killed, with that outcome.
	e := f.execute(t, id, job.TimedOut, api.ExecuteRequest{
		Code: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", Wall: job.Duration(300 * time.Millisecond)})
	if e.Alive {
		t.Error("it gave way?")
	}
}

func sessionCallbacks(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{Functions: []string{"llm_query"}, Policy: json.RawMessage(`{"callbacks": {"allow": ["llm_query"], "max_calls": 20}}`)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = f.api.AnswerCalls(ctx, id, map[string]client.HostFunction{"llm_query": func(_ context.Context, c job.HostCall) (any, error) {
			var args []string
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, err
			}
			return strings.ToUpper(args[0]), nil
		}})
	}()
	e := f.execute(t, id, job.Succeeded, code("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(10) as p: r = list(p.map(llm_query, 'abcdefghij'))\n''.join(r)"))
	if e.Value == nil || e.Value.Repr != "'ABCDEFGHIJ'" || e.Calls != 10 {
		t.Errorf("batched: %+v", e.Value)
	}
	if e = f.execute(t, id, job.Exception, code("for _ in range(11): llm_query('x')")); !strings.Contains(e.Exception.Message, "limit of 20 calls") ||
		e.Exception.Type != "CallError" || !strings.Contains(e.Exception.Traceback, "\nCallError: llm_query") || e.Calls != 11 {
		t.Errorf("above the budget: %d calls, %+v", e.Calls, e.Exception)
	}
	if e = f.execute(t, id, job.Succeeded, code("try:\n    llm_query('x')\nexcept CallError:\n    n = 1\nn")); e.Value == nil || e.Value.Repr != "1" || e.Calls != 1 {
		t.Errorf("a refusal that is caught: %d calls, %+v", e.Calls, e.Exception)
	}
	// Without a budget there is no limit.
	id = f.session(t, job.SessionSpec{Functions: []string{"llm_query"}, Policy: json.RawMessage(`{"callbacks": {"allow": ["llm_query"]}}`)})
	go func() {
		_ = f.api.AnswerCalls(ctx, id, map[string]client.HostFunction{"llm_query": func(context.Context, job.HostCall) (any, error) { return 1, nil }})
	}()
	if e = f.execute(t, id, job.Succeeded, code("sum(llm_query('x') for _ in range(25))")); e.Value == nil || e.Value.Repr != "25" {
		t.Errorf("without a budget: %+v", e)
	}
}

func sessionHostile(t *testing.T, f *fleet) {
	for attack, want := range map[string]job.Outcome{
		"import os, time\nos.write(5, b'\\xff' * 100000)\ntime.sleep(60)": job.PolicyViolation,
		"import os, time\nos.close(5)\nos._exit(3)":                       job.Failed,
		"x = b'x' * (1 << 30)":                                            job.OutOfMemory,
		"import ctypes; ctypes.string_at(0)":                              job.Signaled,
	} {
		id := f.session(t, job.SessionSpec{})
		other := f.session(t, job.SessionSpec{})
		if e := f.execute(t, id, want, code(attack)); e.Alive || e.Message == "" {
			t.Errorf("%q: %+v", attack, e)
		}
		f.execute(t, other, job.Succeeded, code("1"))
	}
}

func sessionShell(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{Kind: job.SessionShell})
	f.execute(t, id, job.Succeeded, code("cd /tmp; export A=5; echo hi > f"))
	if e := f.execute(t, id, job.Succeeded, code("pwd; echo $A; cat f")); e.Stdout.Text != "/tmp\n5\nhi\n" {
		t.Errorf("stdout = %q", e.Stdout.Text)
	}
	if e := f.execute(t, id, job.Failed, code("exit 3")); e.ExitCode == nil || *e.ExitCode != 3 {
		t.Errorf("exit code %v", e.ExitCode)
	}
}

func sessionIdle(t *testing.T, f *fleet) {
	f.ends(t, f.session(t, job.SessionSpec{IdleTimeout: job.Duration(time.Second)}), job.Expired, "it was idle")
}

func sessionFork(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code(`
import os, random
x = [1]
os.makedirs("d/e")
open("d/e/f", "w").write("before")
os.symlink("/etc/passwd", "d/link")
os.chmod("d/e", 0o500)
log = open("log", "w+"); _ = log.write("one "); log.flush()
os.chdir("d")`))
	fork := func(of job.ID) job.ID {
		t.Helper()
		s, err := f.api.ForkSession(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		if s.Parent != of || s.ID == of {
			t.Errorf("fork: %+v", s)
		}
		return s.ID
	}
	says := func(id job.ID, text, want string) {
		t.Helper()
		if e := f.execute(t, id, job.Succeeded, code(text)); e.Value == nil || e.Value.Repr != want {
			t.Errorf("%q: %+v, want %s", text, e.Value, want)
		}
	}
	a, b := fork(id), fork(id)
	f.execute(t, a, job.Succeeded, code("x.append(2); _ = log.write('two'); log.flush(); open('e2', 'w').close()"))
	says(a, "(x, os.getcwd(), sorted(os.listdir('.')), open('/workspace/log').read(), open('e/f').read(), oct(os.stat('e').st_mode))",
		"([1, 2], '/workspace/d', ['e', 'e2', 'link'], 'one two', 'before', '0o40500')")
	for _, other := range []job.ID{id, b} {
		says(other, "(x, sorted(os.listdir('.')), open('/workspace/log').read())", "([1], ['e', 'link'], 'one ')")
	}
	// Neither sees the other's processes. Both have the isolation of any session.
	says(a, "[int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('Cap')]", "[0, 0, 0, 0, 0]")
	says(a, "sorted(int(p) for p in os.listdir('/proc') if p.isdigit()) == [1, os.getpid()]", "True")
	says(a, "open('/proc/self/cgroup').read().count('..')", "0")
	says(a, "open('/proc/net/dev').read().count(':')", "1")
	f.execute(t, a, job.Exception, code("import ctypes; l = ctypes.CDLL(None, use_errno=True)\nif l.unshare(0x10000000) < 0: raise OSError"))
	f.execute(t, a, job.Exception, code("if l.mount(b'x', b'/tmp', b'tmpfs', 0, None) < 0: raise OSError"))
	// A copy of a copy outlives both, with limits of its own.
	c := fork(a)
	says(c, "(x, os.getcwd())", "([1, 2], '/workspace/d')")
	for _, gone := range []job.ID{id, a} {
		if _, err := f.api.CloseSession(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	says(c, "x.append(3) or x", "[1, 2, 3]")
	f.execute(t, b, job.OutOfMemory, code("y = b'x' * (1 << 30)"))
	says(c, "open('/workspace/log').read()", "'one two'")
	f.execute(t, c, job.TimedOut, api.ExecuteRequest{Code: "while True: pass", Wall: job.Duration(300 * time.Millisecond)})
	says(c, "x", "[1, 2, 3]")
	list, err := f.api.Executions(t.Context(), c, "")
	if err != nil || len(list.Executions) != 5 {
		t.Errorf("recorded: %+v, %v", list, err)
	}
	// Threads stay with the original, libraries work in both, and random numbers differ.
	id = f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code(`
import ctypes, numpy, os, random, threading, time
n, square = 0, numpy.ones((300, 300))
def count():
    global n
    while True:
        n += 1
        time.sleep(0.001)
threading.Thread(target=count, daemon=True).start()
float((square @ square).sum())`))
	a = fork(id)
	seen := map[string]bool{}
	for s, counting := range map[job.ID]string{id: "True", a: "False", fork(id): "False"} {
		says(s, "float((square @ square).sum())", "27000000.0")
		says(s, "before = n; time.sleep(0.1); n > before", counting)
		says(s, "ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)", map[string]string{"True": "1", "False": "0"}[counting]) // a copy cannot be inspected
		says(s, "ctypes.CDLL(None).sched_getcpu() in os.sched_getaffinity(0)", "True")
		e := f.execute(t, s, job.Succeeded, code("random.random(), numpy.random.random()"))
		if e.Value == nil || seen[e.Value.Repr] {
			t.Errorf("the same chance twice: %+v", e.Value)
		} else {
			seen[e.Value.Repr] = true
		}
	}
	// The session can kill the box that is made ahead for the next copy.
	if _, err := f.api.CloseSession(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.execute(t, id, job.Succeeded, code(`
import signal
for p in (int(p) for p in os.listdir("/proc") if p.isdigit()):
    if p not in (1, os.getpid()):
        os.kill(p, signal.SIGKILL)`))
		says(fork(id), "float((square @ square).sum())", "27000000.0")
	}
	// Files are copied in their state between two executes, however long that takes.
	id = f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"disk": "256Mi", "memory": "512Mi"}`)})
	const write = "for i in range(320):\n    with open(str(i), 'wb') as file: _ = file.write(b'%s' * (256 << 10))"
	f.execute(t, id, job.Succeeded, code(fmt.Sprintf(write, "a")))
	var changing sync.WaitGroup
	defer changing.Wait() // it reports to the test, which must not have ended
	changing.Go(func() {
		time.Sleep(30 * time.Millisecond) // in either order, the copy has only one version of the files
		if _, err := f.api.Execute(t.Context(), id, code(fmt.Sprintf(write, "b"))); err != nil {
			t.Error(err)
		}
	})
	a = fork(id)
	says(a, "sum(1 for i in range(320) if open(str(i), 'rb').read() == open('0', 'rb').read() and open('0', 'rb').read(1) in (b'a', b'b'))", "320")
	changing.Wait()
	says(id, "sum(1 for i in range(320) if open(str(i), 'rb').read() == b'b' * (256 << 10))", "320")
	// Obstacles are reported.
	for field, spec := range map[string]job.SessionSpec{
		"policy.subprocesses": {Policy: json.RawMessage(`{"subprocesses": false}`)},
		"policy.isolation":    {Policy: json.RawMessage(`{"isolation": "task"}`)},
	} {
		if _, err := f.api.ForkSession(t.Context(), f.session(t, spec)); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// sessionForkHostile keeps the capabilities that a copy has over its own box until it is ready, and
// tries to use them.
func sessionForkHostile(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code("import os, sys; sys.modules['_assay_child'].drop_privileges = lambda: None"))
	s, err := f.api.ForkSession(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	e := f.execute(t, s.ID, job.Succeeded, code(`
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
def refused(*call):
    return c.syscall(*call) < 0 and ctypes.get_errno() in (1, 38)  # EPERM, ENOSYS
def blocked(path):
    try:
        open(path, "w").write("1")
    except OSError:
        return True
tried = {
    "kept": any(int(l.split()[1], 16) for l in open("/proc/self/status") if l.startswith("Cap")),
    "mount": not refused(165, b"x", b"/tmp", b"tmpfs", 0, 0),
    "umount2": not refused(166, b"/workspace", 2),
    "pivot_root": not refused(155, b"/tmp", b"/tmp"),
    "unshare user": not refused(272, 0x10000000),
    "unshare mount": not refused(272, 0x20000),
    "clone": not refused(56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": not refused(435, 0, 0),
    "sethostname": not refused(170, b"x", 1),
    "fsopen": not refused(430, b"tmpfs", 0),
    "open_tree": not refused(428, -100, b"/tmp", 1),
    "bpf": not refused(321, 0, 0, 0),
    "keyctl": not refused(250, 0, 0),
    "init_module": not refused(175, 0, 0, b""),
    "core_pattern": not blocked("/proc/sys/kernel/core_pattern"),
    "sysrq": not blocked("/proc/sysrq-trigger"),
    "release_agent": not blocked("/sys/fs/cgroup/release_agent"),
    "the image": not blocked("/usr/bin/assay"),
    "kill": len([p for p in os.listdir("/proc") if p.isdigit()]) > 2,
}
print([k for k, harm in tried.items() if harm])`))
	if e.Stdout.Text != "[]\n" {
		t.Errorf("not refused: %s", e.Stdout.Text)
	}
	f.execute(t, id, job.Succeeded, code("1"))
	// A copy that ends when it is ready, a copy that never becomes ready, and a copy that falsely
	// reports to be ready are errors. They leave the session unchanged.
	f.execute(t, id, job.Succeeded, code("dying = True\nos.register_at_fork(after_in_child=lambda: dying and os._exit(3))"))
	if s, err := f.api.ForkSession(t.Context(), id); err == nil || !strings.Contains(err.Error(), "copy the interpreter") {
		t.Errorf("a dead copy: %+v, %v", s, err)
	}
	f.execute(t, id, job.Succeeded, code("dying = False"))
	if _, err := f.api.ForkSession(t.Context(), id); err != nil {
		t.Errorf("after a dead copy: %v", err)
	}
	for _, copy := range []string{"lambda slot, prepare: 0/0", "lambda slot, prepare: __import__('os').write(slot, b'h') or 1"} {
		f.execute(t, id, job.Succeeded, code("sys.modules['_assay_fork'].copy = "+copy))
		if s, err := f.api.ForkSession(t.Context(), id); err == nil {
			t.Errorf("%s made %+v", copy, s)
		}
		f.execute(t, id, job.Succeeded, code("1"))
	}
}
