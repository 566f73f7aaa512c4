package runtimetest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Truth runs each row of the truth table this many times: twenty similar ends of programs and their
// expected outcomes. No row may depend on chance.
func Truth(t *testing.T, cfg ProgramsConfig, runs int) {
	s := newSuite(t, cfg.Config)
	for _, p := range truths() {
		t.Run(p.name, func(t *testing.T) {
			for i := range runs {
				if ok := t.Run(strconv.Itoa(i+1), func(t *testing.T) { s.try(t, p) }); !ok {
					return
				}
			}
			clean(t, cfg.Leftovers)
		})
	}
}

func truths() []program {
	second := wall(time.Second)
	small := memory(64 * job.MiB)
	disk := func(p *policy.Policy) { p.Disk = job.MiB }
	files := func(p *policy.Policy) { p.Files = 1000 }
	kill := func(p *policy.Policy) { p.Stdout = policy.Stream{Limit: 4096, OnExceed: policy.Kill} }
	return []program{
		{name: "output flood, truncated", run: py("for _ in range(2000): print('x' * 999)"), outcome: job.Succeeded, check: func(t *testing.T, r *ran) {
			if o := r.Stdout; o.Bytes != 2_000_000 || !o.Truncated || len(o.Text) > 66<<10 || !strings.HasSuffix(o.Text, "xxx\n") {
				t.Errorf("%d bytes, truncated %v, %d kept", o.Bytes, o.Truncated, len(o.Text))
			}
		}},
		{name: "output flood, killed", run: sh("yes"), edit: kill, outcome: job.OutputLimit, atMost: 20 * time.Second},
		{name: "orphan in a session of its own", outcome: job.Succeeded, atMost: 20 * time.Second, run: sh("setsid sleep 1000 >/dev/null 2>&1 & exit 0")},
		{name: "a hundred orphans, one after the other", edit: func(p *policy.Policy) { p.Processes = 20 }, outcome: job.Succeeded, run: py(orphans)},
		{name: "orphan that holds the output", outcome: job.Succeeded, atMost: 20 * time.Second, run: sh("setsid sleep 1000 & echo out"), check: stdoutIs("out\n")},
		{name: "out of memory in a child", edit: small, outcome: job.OutOfMemory, run: sh(`python3 -c 'x = bytearray(400 << 20)'; exit 0`)},
		{name: "out of memory in the parent", edit: small, outcome: job.OutOfMemory, run: py("x = bytearray(400 << 20)")},
		{name: "memory that python itself refuses", edit: small, outcome: job.Exception, code: 1, run: py("raise MemoryError")},
		{name: "busy CPU", edit: second, outcome: job.TimedOut, run: py("while True: pass")},
		{name: "sleep", edit: second, outcome: job.TimedOut, run: py("import time\ntime.sleep(1000)")},
		{name: "SIGSEGV", outcome: job.Signaled, run: sh("kill -SEGV $$"), check: signalIs("SIGSEGV")},
		{name: "SIGKILL of its own", outcome: job.Signaled, run: sh("kill -KILL $$"), check: signalIs("SIGKILL")},
		{name: "exit code 137 of its own", outcome: job.Failed, code: 137, run: sh("exit 137")},
		{name: "exit code 124 of its own", outcome: job.Failed, code: 124, run: py("import sys\nsys.exit(124)")},
		{name: "SIGSEGV in a child", outcome: job.Failed, code: 139, run: sh("sh -c 'kill -SEGV $$'; exit $?")},
		{name: "disk full", edit: disk, outcome: job.DiskLimit, code: 1, run: py("with open('/workspace/f', 'wb') as f:\n    f.write(bytes(8 << 20))")},
		{name: "a hundred thousand files", edit: files, outcome: job.DiskLimit, code: 1, run: py("for i in range(100_000): open('/workspace/%d' % i, 'w').close()")},
		{name: "closed stdout", outcome: job.Succeeded, run: sh("exec >&-; echo lost 2>/dev/null; exit 0"), check: stdoutIs("")},
		{name: "input that nobody reads", outcome: job.Succeeded, run: job.Program{Command: &job.Command{Argv: []string{"true"}, Stdin: strings.Repeat("x", 4<<20)}}},
		{name: "uncaught exception", outcome: job.Exception, code: 1, run: py("1 / 0")},
		{name: "an early os._exit", outcome: job.Succeeded, run: py("import os\nprint('PASSED', flush=True)\nos._exit(0)\n1 / 0"), check: stdoutIs("PASSED\n")},
		{name: "processes without end", edit: func(p *policy.Policy) { p.Processes = 20 }, outcome: job.ProcessLimit, code: 1,
			run: py("import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(1000)")},
		{name: "a program that does not exist", outcome: job.Failed, code: 127, run: job.Program{Command: &job.Command{Argv: []string{"nonesuch"}}}},
	}
}

// orphans leaves processes to process 1, which must reap them.
const orphans = `import os, time
for _ in range(100):
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        os.fork()
        os._exit(0)
    for _ in range(500):
        if sum(d.isdigit() for d in os.listdir("/proc")) < 15: break
        time.sleep(0.01)
`
