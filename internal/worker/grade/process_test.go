package grade

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// gradeOne grades f(1), which must return 1, as a case and as a check.
func gradeOne(t *testing.T, code string) (byCase, byCheck job.CaseResult, written string) {
	t.Helper()
	r := runTests(t, &job.Tests{
		Code: code, Function: "f",
		Cases: []job.Case{{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("1")}},
		Check: "def check(candidate):\n    assert candidate(1) == 1\n",
	})
	if len(r.Tests.Cases) != 2 {
		t.Fatalf("%+v", r.Tests.Cases)
	}
	return r.Tests.Cases[0], r.Tests.Cases[1], r.Stdout.Text
}

// TestForkedChildrenDoNotAnswer checks that only the called process answers for a solution.
func TestForkedChildrenDoNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   string
		passed bool
	}{
		"only the child is right":      {"def f(x):\n    pid = os.fork()\n    if pid == 0: return x\n    os.waitpid(pid, 0)\n    return 'wrong'\n", false},
		"only the parent is right":     {"def f(x):\n    pid = os.fork()\n    if pid == 0: return 'wrong'\n    os.waitpid(pid, 0)\n    return x\n", true},
		"the child raises":             {"def f(x):\n    pid = os.fork()\n    if pid == 0: raise ValueError(x)\n    os.waitpid(pid, 0)\n    return x\n", true},
		"the child exits":              {"def f(x):\n    pid = os.fork()\n    if pid == 0: sys.exit(x)\n    os.waitpid(pid, 0)\n    return x\n", true},
		"the parent raises":            {"def f(x):\n    pid = os.fork()\n    if pid == 0: return x\n    os.waitpid(pid, 0)\n    raise ValueError(x)\n", false},
		"the parent ends first":        {"def f(x):\n    if os.fork() == 0:\n        time.sleep(0.3)\n        return x\n    return 'wrong'\n", false},
		"a grandchild is right":        {"def f(x):\n    if os.fork() == 0:\n        if os.fork() == 0: return x\n        return 'wrong'\n    os.wait()\n    return 'wrong'\n", false},
		"the child has a new group":    {"def f(x):\n    pid = os.fork()\n    if pid == 0:\n        os.setsid()\n        return x\n    os.waitpid(pid, 0)\n    return 'wrong'\n", false},
		"the parent only exits":        {"def f(x):\n    if os.fork() == 0:\n        time.sleep(0.2)\n        return x\n    os._exit(0)\n", false},
		"a thread forks":               {"def f(x):\n    def g():\n        if os.fork(): os.wait()\n    t = threading.Thread(target=g)\n    t.start()\n    t.join()\n    return x\n", true},
		"multiprocessing":              {"def g(q): q.put(1)\ndef f(x):\n    m = multiprocessing.get_context('fork')\n    q = m.Queue()\n    p = m.Process(target=g, args=(q,))\n    p.start()\n    p.join()\n    return q.get()\n", true},
		"the module forks":             {"pid = os.fork()\nif pid: os.waitpid(pid, 0)\ndef f(x): return x if pid else 'wrong'\n", true},
		"the module's child is right":  {"pid = os.fork()\nif pid: os.waitpid(pid, 0)\ndef f(x): return 'wrong' if pid else x\n", false},
		"the pid of the parent is hid": {"os.getpid = lambda: 1\ndef f(x):\n    pid = os.fork()\n    if pid == 0: return x\n    os.waitpid(pid, 0)\n    return 'wrong'\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			byCase, byCheck, _ := gradeOne(t, "import multiprocessing, os, sys, threading, time\n"+c.code)
			for _, got := range []job.CaseResult{byCase, byCheck} {
				if got.Passed != c.passed {
					t.Errorf("%s: passed %v, want %v: %q", got.Name, got.Passed, c.passed, got.Message)
				}
			}
		})
	}
}

// TestSolutionsThatReapChildren checks that a solution may handle SIGCHLD in any way.
func TestSolutionsThatReapChildren(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"ignored":                   "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n",
		"reaped by a handler":       "def h(*a):\n    try:\n        while os.waitpid(-1, os.WNOHANG)[0]: pass\n    except ChildProcessError: pass\nsignal.signal(signal.SIGCHLD, h)\n",
		"a handler that raises":     "def h(*a): raise ValueError('child')\nsignal.signal(signal.SIGCHLD, h)\n",
		"blocked":                   "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})\n",
		"reaped by a thread":        "def reap():\n    while True:\n        try: os.waitpid(-1, 0)\n        except ChildProcessError: time.sleep(0.001)\nthreading.Thread(target=reap, daemon=True).start()\n",
		"ignored by C":              "ctypes.CDLL(None).signal(signal.SIGCHLD, ctypes.c_void_p(1))\n",
		"a subreaper":               "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n",
		"a wakeup descriptor":       "r, w = os.pipe()\nos.set_blocking(w, False)\nsignal.set_wakeup_fd(w)\nsignal.signal(signal.SIGCHLD, lambda *a: None)\n",
		"every signal ignored":      "for s in range(1, 64):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n",
		"a handler that it replays": "seen = []\nsignal.signal(signal.SIGCHLD, lambda *a: seen.append(1))\ndef g(x):\n    subprocess.run(['true'])\n    return len(seen)\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code = "import ctypes, os, signal, subprocess, threading, time\n" + code
			if strings.Contains(code, "def g(x)") {
				code += "def f(x): return g(x)\n"
			} else {
				code += "def f(x): return x\n"
			}
			byCase, byCheck, _ := gradeOne(t, code)
			if !byCase.Passed || !byCheck.Passed {
				t.Errorf("case: %q, check: %q", byCase.Message, byCheck.Message)
			}
			if r := run(t, `{"code":`+quoted(code+"def h(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n")+`,"function":"h","cases":[{"args":[1],"expected":1}]}`); r.Tests.Cases[0].Passed {
				t.Errorf("a process that was killed has passed: %+v", r.Tests.Cases[0])
			}
		})
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestOutputOfC checks that output in C's buffers belongs to the solution's output, once.
func TestOutputOfC(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"in the function":  "import ctypes\ndef f(x):\n    ctypes.CDLL(None).printf(b'out')\n    return x\n",
		"in the module":    "import ctypes\nctypes.CDLL(None).printf(b'out')\ndef f(x):\n    return x\n",
		"by a late import": "def f(x):\n    import ctypes\n    ctypes.CDLL(None).puts(b'out')\n    return x\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			byCase, byCheck, written := gradeOne(t, code)
			if !byCase.Passed || !byCheck.Passed || strings.Count(written, "out") != 2 { // once per sandbox
				t.Errorf("wrote %q", written)
			}
		})
	}
}
