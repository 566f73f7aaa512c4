package runtimetest

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func memory(n job.Size) func(*policy.Policy) { return func(p *policy.Policy) { p.Memory = n } }

// itsOwn is for a separate kernel that shows its own resources instead of the host's: at least two
// processors, its own users, virtual devices.
var itsOwn = []job.Outcome{job.Succeeded}

// unexplained is the outcome of a program that failed by itself after a refused fork.
var unexplained = []job.Outcome{job.Exception, job.Failed}

// limits returns programs that exceed their limits.
func limits() []program {
	const mark = "87414"
	return []program{
		{name: "memory", run: py("print('before'); x = bytearray(400 << 20); print('after')"), edit: memory(64 * job.MiB),
			outcome: job.OutOfMemory, check: func(t *testing.T, r *ran) {
				stdoutIs("before\n")(t, r)
				if peak := job.Size(r.Usage.MemoryPeakBytes); peak < 60*job.MiB || peak > 65*job.MiB {
					t.Errorf("memory peak = %v, want about 64Mi", peak)
				}
			}},
		{name: "memory in a child", edit: memory(64 * job.MiB), outcome: job.OutOfMemory, atMost: 10 * time.Second, run: py(`
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "x = bytearray(400 << 20)"])
time.sleep(1000)`)},
		{name: "memory in a child of a program that succeeds", edit: memory(64 * job.MiB), outcome: job.OutOfMemory,
			run: sh(`python3 -c 'x = bytearray(400 << 20)'; exit 0`)},
		{name: "memory in many processes", edit: memory(64 * job.MiB), outcome: job.OutOfMemory,
			run: sh(`for i in 1 2 3 4 5 6 7 8; do python3 -c 'x = bytearray(30 << 20); import time; time.sleep(1000)' & done; wait`)},
		{name: "within memory", run: py("x = bytearray(150 << 20); x[::4096] = b'x' * len(x[::4096]); print(len(x))"), outcome: job.Succeeded},
		{name: "what is seen of them", foreign: itsOwn, outcome: job.Succeeded, edit: func(p *policy.Policy) { p.CPU, p.Memory = 1, 100*job.MiB }, run: py(`
import os, subprocess
print(os.cpu_count(), len(os.sched_getaffinity(0)), subprocess.check_output(["nproc"], text=True).strip())
print(open("/proc/meminfo").readline().split()[1])
print(os.path.exists("/proc/meminfo") and not os.access("/proc/meminfo", os.W_OK))`), check: stdoutIs("1 1 1\n102400\nTrue\n")},
		{name: "what a command sees of them", foreign: itsOwn, outcome: job.Succeeded, edit: func(p *policy.Policy) { p.CPU, p.Memory = 0.5, 100*job.MiB },
			run: sh("nproc; getconf _NPROCESSORS_ONLN; head -1 /proc/meminfo | tr -d ' '"), check: stdoutIs("1\n1\nMemTotal:102400kB\n")},
		{name: "what a larger one sees", outcome: job.Succeeded, edit: func(p *policy.Policy) { p.CPU = 256 },
			run: sh("test $(nproc) = $(getconf _NPROCESSORS_CONF)")},
		{name: "cpu time", run: sh("while :; do :; done"), outcome: job.TimedOut, atMost: 10 * time.Second,
			edit: func(p *policy.Policy) { p.CPUTime = job.Duration(300 * time.Millisecond) },
			check: func(t *testing.T, r *ran) {
				if r.Usage.CPUMS < 300 || r.Usage.CPUMS > 800 || !strings.Contains(r.Message, "CPU") {
					t.Errorf("used %v ms of CPU: %s", r.Usage.CPUMS, r.Message)
				}
			}},
		{name: "cpu time is that of all processes", outcome: job.TimedOut, atMost: 10 * time.Second,
			run:  sh("for i in 1 2 3; do (while :; do :; done) & done; wait"),
			edit: func(p *policy.Policy) { p.CPUTime = job.Duration(300 * time.Millisecond) }},
		{name: "cpu quota", run: sh("while :; do :; done"), outcome: job.TimedOut,
			edit: func(p *policy.Policy) { p.CPU, p.Wall = 0.2, job.Duration(2*time.Second) },
			check: func(t *testing.T, r *ran) {
				// Without a quota it uses two seconds, if the cores are free. On a busy machine it takes
				// longer, so the allowance grows with the wall time.
				if r.Usage.CPUMS > 400+r.Usage.WallMS/5 {
					t.Errorf("used %v ms of CPU in %v ms, want a fifth", r.Usage.CPUMS, r.Usage.WallMS)
				}
			}},
		{name: "processes", foreign: unexplained, outcome: job.ProcessLimit, code: 1, edit: func(p *policy.Policy) { p.Processes = 10 }, run: py(`
import os, time
for i in range(100):
    if os.fork() == 0:
        time.sleep(1000)`), check: func(t *testing.T, r *ran) {
			if r.Usage.ProcessesPeak != 10 || r.Exception == nil {
				t.Errorf("processes peak = %d, exception %v; want 10 and one", r.Usage.ProcessesPeak, r.Exception)
			}
		}},
		{name: "threads", foreign: unexplained, outcome: job.ProcessLimit, code: 1, edit: func(p *policy.Policy) { p.Processes = 10 }, run: py(`
import threading, time
for i in range(100):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()`)},
		{name: "fork bomb", outcome: job.TimedOut, loosely: []job.Outcome{job.ProcessLimit}, edit: wall(time.Second), atMost: 5 * time.Second,
			run: sh(`bomb() { bomb | bomb & bomb; }; bomb ` + mark), check: func(t *testing.T, _ *ran) { gone(t, mark) }},
		{name: "fork bomb that leaves its session", foreign: []job.Outcome{job.OutOfMemory}, outcome: job.TimedOut, edit: wall(time.Second), atMost: 5 * time.Second, run: py(`
import os
mark = "` + mark + `"
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass`), check: func(t *testing.T, _ *ran) { gone(t, mark) }},
		{name: "disk", run: sh("head -c 100000000 /dev/zero >/workspace/big"), outcome: job.DiskLimit, code: 1},
		{name: "disk of several paths together", run: sh("head -c 40000000 /dev/zero >/workspace/a && head -c 40000000 /dev/zero >/tmp/b"),
			outcome: job.DiskLimit, code: 1},
		{name: "disk of shared memory", run: sh("head -c 100000000 /dev/zero >/dev/shm/a"), outcome: job.DiskLimit, code: 1},
		{name: "disk in python", run: py("open('/tmp/x', 'wb').write(bytes(100 << 20))"), outcome: job.DiskLimit, code: 1,
			check: exceptionIs("OSError")},
		{name: "within disk", run: sh("head -c 60000000 /dev/zero >/workspace/big && stat -c %s /workspace/big"), outcome: job.Succeeded,
			check: stdoutIs("60000000\n")},
		{name: "own disk limit", run: sh("head -c 2000000 /dev/zero >/workspace/big"), outcome: job.DiskLimit, code: 1,
			edit: func(p *policy.Policy) { p.Disk = job.MiB }},
		{name: "larger disk than usual", run: sh("head -c 100000000 /dev/zero >/workspace/big"), outcome: job.Succeeded,
			edit: func(p *policy.Policy) { p.Disk = 128 * job.MiB }},
		{name: "files", run: sh("for i in {1..5000}; do : >/workspace/$i || exit 1; done"), outcome: job.DiskLimit, code: 1},
		{name: "exactly as many files", run: sh("for i in {1..20}; do : >/workspace/$i || exit 1; done"), outcome: job.Succeeded,
			edit: func(p *policy.Policy) { p.Files = 20 }},
		{name: "one file too many", run: sh("for i in {1..21}; do : >/tmp/$i || exit 1; done"), outcome: job.DiskLimit, code: 1,
			edit: func(p *policy.Policy) { p.Files = 20 }},
		{name: "open files", run: py("x = [open('/dev/null') for i in range(300)]"), outcome: job.Exception, code: 1,
			edit: func(p *policy.Policy) { p.OpenFiles = 100 }, check: exceptionIs("OSError")},
		{name: "many open files", run: py("import resource\nx = [open('/dev/null') for i in range(3000)]\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))"),
			outcome: job.Succeeded, edit: func(p *policy.Policy) { p.OpenFiles = 4000 }, check: stdoutIs("(4000, 4000)\n")},
		{name: "stack", run: sh("ulimit -Ss; ulimit -s unlimited; ulimit -s"), outcome: job.Succeeded, check: stdoutIs("8192\nunlimited\n")},
		{name: "own stack", run: sh("ulimit -Ss; ulimit -Hs; ulimit -s 65536 2>/dev/null || echo refused"), outcome: job.Succeeded,
			edit: func(p *policy.Policy) { p.Stack = 32 * job.MiB }, check: stdoutIs("32768\n32768\nrefused\n")},
		{name: "stack in python", run: py(descend + "print(resource.getrlimit(resource.RLIMIT_STACK))\ndescend(40_000)\nthread = threading.Thread(target=descend, args=(1000,))\nthread.start()\nthread.join()\nprint('deep')"),
			outcome: job.Succeeded, edit: func(p *policy.Policy) { p.Stack = 100 * job.MiB }, check: stdoutIs("(104857600, 104857600)\ndeep\n")},
		{name: "stack raised by python", run: py(descend + "resource.setrlimit(resource.RLIMIT_STACK, (100 << 20, resource.RLIM_INFINITY))\ndescend(40_000)\nprint('deep')"),
			outcome: job.Succeeded, foreign: []job.Outcome{job.Signaled}, check: stdoutIs("deep\n")}, // gVisor maps a stack once
		{name: "beyond the stack in python", run: py(descend + "descend(40_000)"), outcome: job.Signaled, code: 139,
			edit: func(p *policy.Policy) { p.Stack = 4 * job.MiB }},
		{name: "threads beside a large stack", run: py(descend + "threads = [threading.Thread(target=descend, args=(100,)) for _ in range(8)]\nfor t in threads: t.start()\nfor t in threads: t.join()\nprint('done')"),
			outcome: job.Succeeded, edit: func(p *policy.Policy) { p.Stack = 200 * job.MiB }, check: stdoutIs("done\n")},
		{name: "no core files", run: sh("ulimit -Hc"), outcome: job.Succeeded, check: stdoutIs("0\n")},
	}
}

// descend uses at least a kilobyte of the C stack for each level.
const descend = `import functools, resource, sys, threading
sys.setrecursionlimit(10**6)
@functools.lru_cache(None)
def down(n):
    return 0 if n == 0 else 1 + down(n - 1)
def descend(n):
    down.cache_clear()
    assert down(n) == n
`

// output returns programs with much or unusual output.
func output() []program {
	kill := func(p *policy.Policy) { p.Stdout.OnExceed, p.Stderr.OnExceed = policy.Kill, policy.Kill }
	return []program{
		{name: "a gigabyte", run: sh("echo first; head -c 1073741824 /dev/zero | tr '\\0' x; echo last"), outcome: job.Succeeded, atMost: 5 * time.Minute,
			// an emulated machine is slow
			edit: func(p *policy.Policy) { p.Wall, p.CPUTime = job.Duration(5*time.Minute), job.Duration(5*time.Minute) },
			check: func(t *testing.T, r *ran) {
				out := r.Stdout
				if out.Bytes != 1<<30+11 || !out.Truncated || len(out.Text) > 66<<10 {
					t.Errorf("stdout: %d bytes, truncated %v, kept %d", out.Bytes, out.Truncated, len(out.Text))
				}
				if !strings.HasPrefix(out.Text, "first\n") || !strings.HasSuffix(out.Text, "last\n") || !strings.Contains(out.Text, "bytes cut …\n") {
					t.Errorf("kept %.40q … %q", out.Text, out.Text[len(out.Text)-40:])
				}
			}},
		{name: "endless", run: command("yes"), outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second,
			check: func(t *testing.T, r *ran) {
				if !r.Stdout.Truncated {
					t.Errorf("stdout = %+v", r.Stdout)
				}
			}},
		{name: "too much to stdout", run: command("yes"), outcome: job.OutputLimit, edit: kill, atMost: 3 * time.Second},
		{name: "too much to stderr", run: sh("yes >&2"), outcome: job.OutputLimit, edit: kill, atMost: 3 * time.Second},
		{name: "just enough", run: sh("head -c 65536 /dev/zero | tr '\\0' x"), outcome: job.Succeeded, edit: kill},
		{name: "closed streams", run: sh("exec <&- >&- 2>&-; sleep 0.1"), outcome: job.Succeeded, check: stdoutIs("")},
		{name: "both streams", run: sh("echo out; echo err >&2"), outcome: job.Succeeded, check: func(t *testing.T, r *ran) {
			stdoutIs("out\n")(t, r)
			if r.Stderr.Text != "err\n" {
				t.Errorf("stderr = %q", r.Stderr.Text)
			}
		}},
		{name: "streams by name", run: sh("echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin"), outcome: job.Succeeded,
			check: stdoutIs("out\n")},
		{name: "a grandchild keeps stdout", run: sh("(setsid sleep 1000 &) ; echo done"), outcome: job.Succeeded, atMost: 3 * time.Second,
			check: stdoutIs("done\n")},
		{name: "not UTF-8", run: sh(`printf 'a\xffb'`), outcome: job.Succeeded, check: stdoutIs("a\uFFFDb")},
		{name: "before a kill", run: py("print('seen')\nwhile True: pass"), outcome: job.TimedOut, edit: wall(time.Second),
			check: stdoutIs("seen\n")},
	}
}
