package runtimetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// way is one way of starting a program: the program, and the kind of its slot.
type way struct {
	name string
	kind string // of the slot
	run  func(code string) job.Program
	edit func(*policy.Policy)
	with exchange
}

// ways returns all of them, including slots of another kind than their program: a graded script
// once ran in a slot for python, outside of the job's control group.
func ways() []way {
	command := func(code string) job.Program { return command("python3", "-c", code) }
	steps := func(code string) job.Program {
		return job.Program{Command: &job.Command{Steps: []job.Step{
			{Name: "first", Argv: []string{"true"}}, {Name: "greedy", Argv: []string{"python3", "-c", code}},
		}}}
	}
	afresh := func(p *policy.Policy) { p.Env.Set = map[string]string{"PYTHONHASHSEED": "1"} }
	elsewhere := func(p *policy.Policy) { p.Write = append(slices.Clone(p.Write), "/var/tmp") }
	out := []way{
		{name: "python", kind: "python", run: py},
		{name: "python with a stream", kind: "tests", run: py, with: listen},
		{name: "python in a slot for sessions", kind: "session", run: py},
		{name: "python in a slot for commands", kind: "command", run: py},
		{name: "python that starts afresh", kind: "python", run: py, edit: afresh},
		{name: "python in another layout", kind: "python", run: py, edit: elsewhere},
		{name: "command in another layout", kind: "command", run: command, edit: elsewhere},
	}
	for _, kind := range []string{"command", "python", "tests", "session"} {
		out = append(out,
			way{name: "command in a slot for " + kind, kind: kind, run: command},
			way{name: "steps in a slot for " + kind, kind: kind, run: steps})
	}
	return out
}

// greed is a program that exceeds one limit.
type greed struct {
	name  string
	code  string
	edit  func(*policy.Policy)
	want  []job.Outcome
	check func(t *testing.T, r *runtime.Report)

	// besides compares the report with an idle program's, started in the same way.
	besides func(t *testing.T, r, nothing *runtime.Report)
}

func greeds() []greed {
	failed := []job.Outcome{job.Failed, job.Exception}
	return []greed{
		{name: "memory", code: "x = b'x' * (200 << 20); print('had it')", edit: memory(64 * job.MiB), want: []job.Outcome{job.OutOfMemory}},
		{name: "processes", edit: func(p *policy.Policy) { p.Processes = 8 }, want: append(failed, job.ProcessLimit), code: `
import os, time
for i in range(30):
    if os.fork() == 0:
        time.sleep(1000)
print('had it')`},
		{name: "cpu time", code: "while True: pass", edit: func(p *policy.Policy) { p.CPUTime = job.Duration(200 * time.Millisecond) },
			want: []job.Outcome{job.TimedOut}, check: func(t *testing.T, r *runtime.Report) {
				if !strings.Contains(r.Message, "CPU") {
					t.Errorf("it ended because %s", r.Message)
				}
			}},
		{name: "cpu", code: "while True: pass", want: []job.Outcome{job.TimedOut},
			edit: func(p *policy.Policy) { p.CPU, p.Wall = 0.2, job.Duration(time.Second) },
			besides: func(t *testing.T, r, nothing *runtime.Report) {
				start := nothing.Usage.CPUMS // grows with the machine's load
				if r.Usage.CPUMS < 20 || r.Usage.CPUMS > 200+2*start+r.Usage.WallMS/5 {
					t.Errorf("it used %v ms of a core in %v, want a fifth, beside what its start takes: %v", r.Usage.CPUMS, r.Usage.WallMS, start)
				}
			}},
		{name: "wall", code: "import time; time.sleep(1000)", want: []job.Outcome{job.TimedOut}, edit: wall(300 * time.Millisecond)},
		{name: "disk", code: "open('/tmp/x', 'wb').write(bytes(8 << 20)); print('had it')", want: []job.Outcome{job.DiskLimit},
			edit: func(p *policy.Policy) { p.Disk = 2 * job.MiB }},
		{name: "open files", code: "x = [open('/dev/null') for i in range(200)]; print('had it')", want: failed,
			edit: func(p *policy.Policy) { p.OpenFiles = 100 }},
		{name: "stdout", code: "print('x' * (1 << 20)); import time; time.sleep(1000)", want: []job.Outcome{job.OutputLimit},
			edit: func(p *policy.Policy) { p.Stdout.Limit, p.Stdout.OnExceed = 4096, policy.Kill }},
	}
}

// Starts checks every limit for each way of starting a program.
func Starts(t *testing.T, cfg Config) {
	s := newSuite(t, cfg)
	for i, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			all := greeds()
			i %= len(all)
			for _, g := range part(t, cfg, slices.Concat(all[i:], all[:i])) { // a part differs between ways
				t.Run(g.name, func(t *testing.T) {
					t.Parallel()
					s.greedy(t, w, g)
				})
			}
		})
	}
}

func (s *suite) greedy(t *testing.T, w way, g greed) {
	rep := s.started(t, w, g.code, g.edit)
	if !slices.Contains(g.want, rep.Outcome) || strings.Contains(rep.Stdout.Text, "had it") {
		t.Errorf("%s: %s\n%s%s, want %s", rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text, fmt.Sprint(g.want))
	}
	if g.check != nil {
		g.check(t, rep)
	}
	if g.besides != nil {
		g.besides(t, rep, s.started(t, w, "pass", func(*policy.Policy) {}))
	}
}

// started runs code in one way under a policy.
func (s *suite) started(t *testing.T, w way, code string, edit func(*policy.Policy)) *runtime.Report {
	t.Helper()
	a := s.attempt(t, w.run(code), func(p *policy.Policy) {
		p.Wall = job.Duration(30 * time.Second)
		if w.edit != nil {
			w.edit(p)
		}
		edit(p)
	})
	rep, err := w.with.run(t.Context(), s.acquire(t, w.kind), a)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return rep
}
