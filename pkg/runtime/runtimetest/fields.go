package runtimetest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// field is one field of a policy: a program that needs it, a policy that grants it, and one that
// only denies it.
type field struct {
	capability   string // as in the report
	run          job.Program
	files        []runtime.File
	secrets      map[string]string
	given, taken edit
	ends         job.Outcome // under taken
	also         []job.Outcome
	foreign      []job.Outcome // likewise with a separate kernel
	// describes a failure, if the program ends equally under both
	look       func(granted bool, r *runtime.Report) string
	rows       [2]string // requested, under given and under taken
	level      job.Level
	levelTaken job.Level // if different
}

type edit = func(*policy.Policy)

// elsewhere lists capabilities whose tests need more than a program and a policy.
var elsewhere = map[string]string{
	"isolation":    "every test of this package, at each isolation",
	"subprocesses": "the programs that are forbidden to make some",
	"imports":      "the programs that import what they may not",
	"syscalls":     "the programs under the strict profile",
	"callbacks":    "sessions: somebody has to answer",
	"packages":     "runtime/environment, and its tests in runtime/containerd",
}

// Fields checks each field of a policy: a program that needs it succeeds with it, fails without it,
// and the report is correct for both.
func Fields(t *testing.T, cfg Config) {
	s := newSuite(t, cfg)
	table := fields(t)
	for _, row := range policy.Explain(policy.Default(), s.rt.Host(), policy.UseAny) {
		tested := slices.ContainsFunc(table, func(f field) bool { return f.capability == row.Capability })
		if _, ok := elsewhere[row.Capability]; tested == ok {
			t.Errorf("%s: tested here %v, elsewhere %v", row.Capability, tested, ok)
		}
	}
	for _, f := range table {
		t.Run(f.capability, func(t *testing.T) {
			s.field(t, f, "given", f.given, job.Succeeded, nil, f.rows[0], f.level)
			if f.levelTaken == "" {
				f.levelTaken = f.level
			}
			also := f.also
			if s.Isolation == policy.GVisor {
				also = slices.Concat(also, f.foreign)
			}
			s.field(t, f, "taken", f.taken, f.ends, also, f.rows[1], f.levelTaken)
		})
	}
}

func (s *suite) field(t *testing.T, f field, name string, e edit, want job.Outcome, also []job.Outcome, asked string, level job.Level) {
	t.Helper()
	a := s.attempt(t, f.run, e)
	a.Files = f.files
	if len(a.Plan.Policy.Env.Secrets) > 0 {
		a.Secrets = f.secrets
	}
	var kept []job.Artifact
	a.Collect = func(_ context.Context, path string, _ int64, _ io.Reader) error {
		kept = append(kept, job.Artifact{Path: path})
		return nil
	}
	slot := s.acquire(t, f.run.Kind())
	rep, err := slot.Run(t.Context(), a)
	slot.Close()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if rep.Outcome != want && !slices.Contains(also, rep.Outcome) {
		t.Errorf("%s: %s (%s), want %s\nstdout %.500s\nstderr %.500s", name, rep.Outcome, rep.Message, want, rep.Stdout.Text, rep.Stderr.Text)
	}
	rep.Artifacts = kept
	if f.look != nil {
		if wrong := f.look(name == "given", rep); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
	i := slices.IndexFunc(rep.Enforcement, func(r job.Enforcement) bool { return r.Capability == f.capability })
	if i < 0 {
		t.Fatalf("%s: the report has no row", name)
	}
	got := rep.Enforcement[i]
	if got.Mechanism == "" {
		t.Errorf("%s: the report names no mechanism", name)
	}
	got.Mechanism = ""
	if d := cmp.Diff(job.Enforcement{Capability: f.capability, Requested: asked, Applied: asked, Level: level}, got); d != "" {
		t.Errorf("%s: row (-want +got):\n%s", name, d)
	}
}

func seconds(n float64) job.Duration { return job.Duration(n * float64(time.Second)) }

func fields(t *testing.T) []field {
	at := outside(t)
	nothing := func(*policy.Policy) {}
	burn := py("import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass")
	// The share of two cores that two processes get. It depends on the machine's load, so the two results are
	// compared.
	spin := py(`
import os, time
end = time.monotonic() + 2
os.fork()
while time.monotonic() < end: pass`)
	var whole float64
	share := func(granted bool, r *runtime.Report) string {
		part := r.Usage.CPUMS / r.Usage.WallMS
		if granted {
			whole = part
		} else if part > 0.1 || part >= whole {
			return fmt.Sprintf("it got %.3f cores, and %.3f when it was granted 2", part, whole)
		}
		return ""
	}
	kept := func(granted bool, r *runtime.Report) string {
		if (len(r.Artifacts) == 1) != granted {
			return fmt.Sprintf("%d artifacts were kept", len(r.Artifacts))
		}
		return ""
	}
	return []field{
		{capability: "wall", run: py("import time; time.sleep(1)"), level: job.LevelRuntime, rows: [2]string{"30s", "300ms"},
			given: nothing, taken: func(p *policy.Policy) { p.Wall = seconds(0.3) }, ends: job.TimedOut},
		{capability: "cpu", run: spin, level: job.LevelKernel, rows: [2]string{"2", "0.05"}, ends: job.Succeeded, look: share,
			given: func(p *policy.Policy) { p.CPU = 2 }, taken: func(p *policy.Policy) { p.CPU = 0.05 }},
		{capability: "cpu_time", run: burn, level: job.LevelRuntime, rows: [2]string{"30s", "300ms"},
			given: nothing, taken: func(p *policy.Policy) { p.CPUTime = seconds(0.3) }, ends: job.TimedOut},
		{capability: "memory", run: py("x = bytearray(200 << 20); x[::4096] = b'x' * len(x[::4096])"), level: job.LevelKernel, rows: [2]string{"256Mi", "64Mi"},
			given: nothing, taken: memory(64 * job.MiB), ends: job.OutOfMemory},
		{capability: "stack", run: py(descend + "descend(40_000)"), level: job.LevelKernel, rows: [2]string{"100Mi", "4Mi"},
			given: func(p *policy.Policy) { p.Stack = 100 * job.MiB }, taken: func(p *policy.Policy) { p.Stack = 4 * job.MiB }, ends: job.Signaled},
		{capability: "processes", run: py("import os, time\nfor i in range(8):\n    if os.fork() == 0: time.sleep(1); os._exit(0)"), level: job.LevelKernel, rows: [2]string{"64", "4"},
			given: nothing, taken: func(p *policy.Policy) { p.Processes = 4 }, ends: job.ProcessLimit, foreign: unexplained},
		{capability: "disk", run: sh("head -c 2000000 /dev/zero >/workspace/x"), level: job.LevelKernel, rows: [2]string{"64Mi", "1Mi"},
			given: nothing, taken: func(p *policy.Policy) { p.Disk = job.MiB }, ends: job.DiskLimit},
		{capability: "files", run: sh("set -e; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo >/workspace/$i; done"),
			level: job.LevelKernel, rows: [2]string{"4096", "16"}, given: nothing, taken: func(p *policy.Policy) { p.Files = 16 }, ends: job.DiskLimit},
		{capability: "open_files", run: py("import os; [os.dup(0) for i in range(100)]"), level: job.LevelKernel, rows: [2]string{"256", "32"},
			given: nothing, taken: func(p *policy.Policy) { p.OpenFiles = 32 }, ends: job.Exception},
		{capability: "stdout", run: sh("head -c 100000 /dev/zero"), level: job.LevelRuntime, rows: [2]string{"128Ki, kill", "1Ki, kill"},
			given: func(p *policy.Policy) { p.Stdout = policy.Stream{Limit: 128 * job.KiB, OnExceed: policy.Kill} },
			taken: func(p *policy.Policy) { p.Stdout = policy.Stream{Limit: job.KiB, OnExceed: policy.Kill} }, ends: job.OutputLimit},
		{capability: "stderr", run: sh("head -c 100000 /dev/zero >&2"), level: job.LevelRuntime, rows: [2]string{"128Ki, kill", "1Ki, kill"},
			given: func(p *policy.Policy) { p.Stderr = policy.Stream{Limit: 128 * job.KiB, OnExceed: policy.Kill} },
			taken: func(p *policy.Policy) { p.Stderr = policy.Stream{Limit: job.KiB, OnExceed: policy.Kill} }, ends: job.OutputLimit},
		{capability: "read", run: sh("test -d /data && ! touch /data/x 2>/dev/null"), level: job.LevelKernel, rows: [2]string{"/data", "image and inputs"},
			given: func(p *policy.Policy) { p.Read = []string{"/data"} }, taken: nothing, ends: job.Failed},
		{capability: "write", run: sh("touch /data/x"), level: job.LevelKernel, rows: [2]string{"/workspace, /data", "/workspace, /tmp"},
			given: func(p *policy.Policy) { p.Write = []string{"/workspace", "/data"} }, taken: nothing, ends: job.Failed},
		{capability: "network", run: py(fetch + fmt.Sprintf("assert fetch('http://%s/') == b'hello from outside'", at)),
			level: job.LevelRuntime, levelTaken: job.LevelKernel, rows: [2]string{"allow " + at + "; 1Gi", "none"},
			given: allow(at), taken: nothing, ends: job.Exception},
		{capability: "env.set", run: sh(`test "$GIVEN" = value`), level: job.LevelRuntime, rows: [2]string{"GIVEN", "none"},
			given: func(p *policy.Policy) { p.Env.Set = map[string]string{"GIVEN": "value"} }, taken: nothing, ends: job.Failed},
		{capability: "env.secrets", run: sh(`test "$TOKEN" = hunter2`), level: job.LevelRuntime, levelTaken: job.LevelNone, rows: [2]string{"TOKEN", "none"},
			given: func(p *policy.Policy) { p.Env.Secrets = map[string]string{"TOKEN": "pypi"} }, secrets: map[string]string{"TOKEN": "hunter2"},
			taken: nothing, ends: job.Failed},
		{capability: "artifacts", look: kept, run: sh("echo kept >out"), level: job.LevelRuntime, levelTaken: job.LevelNone,
			rows:  [2]string{"/workspace/out; 16Mi, 100 files", "none"},
			given: func(p *policy.Policy) { p.Artifacts.Paths = []string{"/workspace/out"} }, taken: nothing, ends: job.Succeeded},
	}
}
