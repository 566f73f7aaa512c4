package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// limits is a policy as a client writes it.
type limits map[string]any

// limit is a limit of programs.
type limit struct {
	name       string
	capability string // in the report
	policy     limits
	beyond     string // code that defines act, which exceeds the limit
	// outcomes are the allowed outcomes; graded and session those of graded solutions and sessions,
	// if they differ.
	outcomes, graded, session []job.Outcome
	held                      func(t *testing.T, o *observed, p *program, level string) // checks the measurements; nil: the outcome suffices
	roomy                     limits                                                    // the policy for programs within the limit; nil: the same
	within                    string
	stayed                    func(t *testing.T, o *observed, p *program, level string)
	level                     job.Level // level of enforcement; sessionLevel in sessions, if it is not empty
	sessionLevel              job.Level
	// excused has programs for which the cell has no meaning, by name, each with the reason.
	excused map[string]string
	// unfit has the uses for which the limit is not enforced, and their reason in the report.
	unfit map[policy.Use]string
}

const second = 1000 // milliseconds

// late is the allowed delay of stopping a program on a busy machine, in milliseconds.
const late = 60 * second

var (
	stopped = []job.Outcome{job.TimedOut}
	failed  = []job.Outcome{job.Exception, job.Failed}
	fine    = []job.Outcome{job.Succeeded}
)

// table returns the limits; page is the address of a server on this host.
func table(page string) []limit {
	return append([]limit{
		{name: "wall", capability: "wall", level: job.LevelRuntime, outcomes: stopped,
			policy: limits{"wall": "2s", "cpu_time": "1h"}, beyond: "import time\ndef act():\n    time.sleep(600)",
			held: func(t *testing.T, o *observed, _ *program, _ string) {
				between(t, "wall_ms", o.usage.WallMS, 1*second, 2*second+late)
			},
			roomy: limits{"wall": "2m"}, within: "import time\ndef act():\n    time.sleep(0.1)"},
		{name: "cpu_time", capability: "cpu_time", level: job.LevelRuntime, outcomes: stopped,
			policy: limits{"wall": "5m", "cpu_time": "1500ms"}, beyond: "def act():\n    while True: pass",
			held: func(t *testing.T, o *observed, _ *program, _ string) {
				// The excess is the work of one core until the meter is read, and until an
				// interrupt is handled.
				between(t, "cpu_ms", o.usage.CPUMS, 1.4*second, 7*second)
			},
			roomy: limits{"wall": "2m", "cpu_time": "1m"}, within: "def act():\n    for _ in range(100_000): pass"},
		{name: "cpu", capability: "cpu", level: job.LevelKernel, outcomes: fine,
			policy: limits{"wall": "2m", "cpu": 0.25}, beyond: "import time\ndef act():\n    end = time.monotonic() + 3\n    while time.monotonic() < end: pass",
			held: func(t *testing.T, o *observed, p *program, _ string) {
				most := 0.25*o.usage.WallMS + 0.3*second // a period of the quota at each end, and earlier use
				if p.use == policy.UseTests {
					most *= 2 // check and solution have a group each
				}
				between(t, "cpu_ms", o.usage.CPUMS, 0, most)
			},
			roomy: limits{"cpu": 1}, within: "def act(): pass"},
		{name: "memory", capability: "memory", level: job.LevelKernel, outcomes: []job.Outcome{job.OutOfMemory},
			policy: limits{"wall": "2m", "memory": "96Mi"}, beyond: "def act():\n    x = bytearray(500 << 20)\n    print(len(x))",
			held: func(t *testing.T, o *observed, _ *program, _ string) {
				between(t, "memory_peak_bytes", float64(o.usage.MemoryPeakBytes), 8<<20, 97<<20)
			},
			within: "def act():\n    x = bytearray(1 << 20)"},
		{name: "stack", capability: "stack", level: job.LevelKernel, outcomes: append([]job.Outcome{job.Signaled}, failed...),
			policy: limits{"wall": "2m", "stack": "2Mi"}, beyond: descends(40_000), roomy: limits{"stack": "100Mi"}, within: descends(40_000)},
		{name: "processes", capability: "processes", level: job.LevelKernel, outcomes: []job.Outcome{job.ProcessLimit, job.Exception, job.Failed},
			policy: limits{"wall": "2m", "processes": 20}, beyond: forks(60),
			held: func(t *testing.T, o *observed, p *program, level string) {
				if level == "gvisor" { // its kernel does not report it
					return
				}
				between(t, "processes_peak", float64(o.usage.ProcessesPeak), 2, 20)
				if p.use != policy.UseTests && o.outcome != job.ProcessLimit {
					t.Errorf("outcome %s, want %s", o.outcome, job.ProcessLimit)
				}
			},
			within: forks(2)},
		{name: "disk", capability: "disk", level: job.LevelKernel, outcomes: []job.Outcome{job.DiskLimit}, graded: append([]job.Outcome{job.DiskLimit}, failed...),
			policy: limits{"wall": "2m", "disk": "2Mi"}, beyond: "def act():\n    with open('/workspace/f', 'wb') as f: f.write(bytes(8 << 20))",
			within: "def act():\n    with open('/workspace/f', 'wb') as f: f.write(bytes(100_000))"},
		{name: "files", capability: "files", level: job.LevelKernel, outcomes: []job.Outcome{job.DiskLimit}, graded: append([]job.Outcome{job.DiskLimit}, failed...),
			policy: limits{"wall": "2m", "files": 60}, beyond: "def act():\n    for i in range(200): open('/workspace/%d' % i, 'w').close()",
			within: "def act():\n    for i in range(5): open('/workspace/%d' % i, 'w').close()"},
		{name: "open_files", capability: "open_files", level: job.LevelKernel, outcomes: failed,
			policy: limits{"wall": "2m", "open_files": 64}, beyond: opens(100), within: opens(5)},
	}, append(streams(), others(page)...)...)
}

// descends returns code that recurses on the C stack.
func descends(n int) string {
	return fmt.Sprintf("import functools, sys\nsys.setrecursionlimit(10**6)\n@functools.lru_cache(None)\ndef down(n):\n    return 0 if n == 0 else 1 + down(n - 1)\n"+
		"def act():\n    down(%d)", n)
}

// forks returns code that starts processes that stay.
func forks(n int) string {
	return fmt.Sprintf("import os, time, signal\ndef act():\n    made = []\n    try:\n        for _ in range(%d):\n            pid = os.fork()\n"+
		"            if pid == 0:\n                time.sleep(300)\n                os._exit(0)\n            made.append(pid)\n"+
		"    finally:\n        for pid in made:\n            os.kill(pid, signal.SIGKILL)\n            os.waitpid(pid, 0)", n)
}

// opens returns code that opens files and keeps them open until its end.
func opens(n int) string {
	return fmt.Sprintf("def act():\n    kept = [open('/dev/null') for _ in range(%d)]\n    for f in kept: f.close()", n)
}

// streams returns the limits of output.
func streams() []limit {
	writes := func(name string, n int, then string) string {
		return fmt.Sprintf("import sys, time\ndef act():\n    for _ in range(%d): sys.%s.write('x' * 999 + '\\n')\n    sys.%s.flush()%s", n, name, name, then)
	}
	cut := func(of func(*observed) job.Output) func(*testing.T, *observed, *program, string) {
		return func(t *testing.T, o *observed, _ *program, _ string) {
			if s := of(o); !s.Truncated || s.Bytes < 20_000 || len(s.Text) > 4096+100 || !strings.Contains(s.Text, "bytes cut") {
				t.Errorf("%d bytes, truncated %v, %d kept", s.Bytes, s.Truncated, len(s.Text))
			}
		}
	}
	stdout, stderr := func(o *observed) job.Output { return o.stdout }, func(o *observed) job.Output { return o.stderr }
	whole := func(of func(*observed) job.Output) func(*testing.T, *observed, *program, string) {
		return func(t *testing.T, o *observed, _ *program, _ string) {
			if s := of(o); s.Truncated || s.Bytes != 1000 || len(s.Text) != 1000 {
				t.Errorf("%d bytes, truncated %v, %d kept", s.Bytes, s.Truncated, len(s.Text))
			}
		}
	}
	short := limits{"limit": "4Ki", "on_exceed": "truncate"}
	kill := limits{"limit": "4Ki", "on_exceed": "kill"}
	said := "# prints " + strings.Repeat("x", 999) + "\n"
	const sleep = "\n    time.sleep(600)"
	over := []job.Outcome{job.OutputLimit}
	held := func(t *testing.T, o *observed, _ *program, _ string) {
		between(t, "wall_ms", o.usage.WallMS, 0, late)
	}
	return []limit{
		{name: "stdout", capability: "stdout", level: job.LevelRuntime, sessionLevel: job.LevelHarness, outcomes: fine, graded: append(fine, job.Failed),
			policy: limits{"wall": "2m", "stdout": short}, beyond: writes("stdout", 20, ""), held: cut(stdout), within: said + writes("stdout", 1, ""), stayed: whole(stdout)},
		{name: "stderr", capability: "stderr", level: job.LevelRuntime, sessionLevel: job.LevelHarness, outcomes: fine,
			policy: limits{"wall": "2m", "stderr": short}, beyond: writes("stderr", 20, ""), held: cut(stderr), within: writes("stderr", 1, ""), stayed: whole(stderr)},
		{name: "on_exceed", capability: "stdout", level: job.LevelRuntime, sessionLevel: job.LevelHarness, outcomes: over,
			policy: limits{"wall": "10m", "stdout": kill}, beyond: writes("stdout", 20, sleep), held: held, within: said + writes("stdout", 1, ""), stayed: whole(stdout)},
	}
}

// others returns the limits of access.
func others(page string) []limit {
	get := "import urllib.request\ndef act():\n    assert urllib.request.urlopen('http://" + page + "/', timeout=60).read() == b'page'"
	leave := func(n int) string {
		return fmt.Sprintf("import os\ndef act():\n    os.makedirs('/workspace/out', exist_ok=True)\n    with open('/workspace/out/a', 'w') as f: f.write('x' * %d)", n)
	}
	return []limit{
		{name: "network", capability: "network", level: job.LevelKernel, outcomes: failed,
			policy: limits{"wall": "2m", "network": limits{"mode": "none"}}, beyond: get,
			roomy: limits{"wall": "2m", "network": limits{"mode": "allow", "allow": []string{page}}}, within: get,
			stayed: func(t *testing.T, o *observed, p *program, _ string) {
				if p.use == policy.UseSession || p.use == policy.UseShell {
					return // an execution has no account of its own
				}
				if n := o.network; n == nil || len(n.Attempts) != 1 || n.Attempts[0].Decision != "allowed" || o.usage.NetworkBytes == 0 {
					t.Errorf("network %+v, %d bytes", o.network, o.usage.NetworkBytes)
				}
			}},
		{name: "artifacts", capability: "artifacts", level: job.LevelRuntime, outcomes: fine,
			policy: limits{"wall": "2m", "artifacts": limits{"paths": []string{"/workspace/out/*"}, "max_bytes": "1Ki"}}, beyond: leave(5000),
			held: func(t *testing.T, o *observed, _ *program, _ string) {
				if len(o.artifacts) != 0 {
					t.Errorf("artifacts %+v", o.artifacts)
				}
			},
			within: leave(500),
			stayed: func(t *testing.T, o *observed, _ *program, _ string) {
				if len(o.artifacts) != 1 || o.artifacts[0].Bytes != 500 {
					t.Errorf("artifacts %+v", o.artifacts)
				}
			}},
		{name: "imports", capability: "imports", level: job.LevelHarness, outcomes: []job.Outcome{job.PolicyViolation},
			graded: []job.Outcome{job.PolicyViolation, job.Failed}, // a script can only report it by its exit code
			policy: limits{"wall": "2m", "imports": limits{"deny": []string{"colorsys"}}}, beyond: "def act():\n    import colorsys",
			held: func(t *testing.T, o *observed, _ *program, _ string) {
				if !strings.Contains(o.message, "policy.imports: line 2: import of colorsys") {
					t.Errorf("message %q", o.message)
				}
			},
			within:  "def act():\n    import calendar",
			excused: map[string]string{"session command": "a command is no snippet, and may start another python: the rules are no wall, and the level says so"},
			unfit: map[policy.Use]string{
				policy.UseCommand: "only the imports of python code", policy.UseShell: "only the imports of python code",
			}},
	}
}

func between(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s is %.1f, want %.1f to %.1f", what, got, least, most)
	}
}
