package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// arena is one runtime at one isolation, and the attacked host.
type arena struct {
	rt        *containerd.Runtime
	isolation policy.Isolation
	host      *host
	binaries  map[string][]byte // of the C programs, by name
	imports   string            // preloaded module of python programs; "": none
}

// preloadedModule is a module that is worth preloading.
const preloadedModule = "asyncio"

// newRuntime returns a runtime without warm slots, so that the host is empty between jobs.
func newRuntime(t *testing.T) (_ *containerd.Runtime, stateDir string) {
	t.Helper()
	env := testenv.Containerd(t)
	dir := filepath.Join(t.TempDir(), "state")
	r, err := containerd.New(t.Context(), containerd.Config{
		Address: env.Address, Namespace: env.Namespace, StateDir: dir, Guest: testenv.Guest(t), WorkerID: "hostile", Runsc: testenv.Runsc(t),
		PreloadMemory: job.GiB, PreloadIdle: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.CloseAtEnd(t, r)
	return r, dir
}

// The tenants: of the attacks, and another one on the same host.
const attacker, innocent = "hostile", "innocent"

// do runs one job of the attacker and returns its report and its artifacts.
func (a *arena) do(t *testing.T, p job.Program, plan *policy.Plan, files []runtime.File) (*runtime.Report, map[string][]byte) {
	t.Helper()
	report, kept, err := a.try(t.Context(), attacker, p, plan, files)
	if err != nil {
		t.Fatal(err)
	}
	return report, kept
}

// try is do for a job of any tenant.
func (a *arena) try(ctx context.Context, tenant string, p job.Program, plan *policy.Plan, files []runtime.File) (*runtime.Report, map[string][]byte, error) {
	key := runtime.Key{Tenant: tenant, Image: testenv.Image, Isolation: a.isolation, Kind: p.Kind()}
	if p.Python != nil && a.imports != "" {
		key.Imports, key.CPU = a.imports, plan.Policy.CPU
	}
	slot, err := a.rt.Acquire(ctx, key)
	if err != nil {
		return nil, nil, fmt.Errorf("acquire: %w", err)
	}
	defer slot.Close()
	kept := map[string][]byte{}
	report, err := slot.Run(ctx, runtime.Attempt{
		Job: job.NewID(), Lease: 1, Program: p, Plan: plan, Files: files, Deadline: time.Now().Add(time.Hour),
		Collect: func(_ context.Context, path string, _ int64, r io.Reader) (err error) {
			kept[path], err = io.ReadAll(r)
			return err
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("run: %w", err)
	}
	return report, kept, nil
}

// plan returns the plan of an attack's policy.
func (a *arena) plan(t *testing.T, c *Attack) *policy.Plan {
	t.Helper()
	raw, err := c.Document(a.isolation, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(a.rt.Host())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// compile builds every C program of the corpus in one job.
func (a *arena) compile(t *testing.T, corpus []*Attack) {
	t.Helper()
	build, program, sources, err := Build(corpus)
	if err != nil {
		t.Fatal(err)
	}
	report, kept := a.do(t, program, a.plan(t, build), inputs(sources))
	if report.Outcome != job.Succeeded {
		t.Fatalf("compile the corpus: %s: %s", report.Outcome, report.Stderr.Text)
	}
	a.binaries = map[string][]byte{}
	for path, data := range kept {
		a.binaries[Built(path)] = data
	}
}

func inputs(files map[string][]byte) (list []runtime.File) {
	for path, data := range files {
		list = append(list, runtime.File{Path: path, Data: data})
	}
	return list
}

// attack runs c and judges it.
func (a *arena) attack(t *testing.T, c *Attack) {
	plan := *a.plan(t, c)
	mark := string(job.NewID())
	plan.Policy.Env.Set = a.host.bait.Env(mark, a.rt.Cgroup())
	program, files, err := c.Program(a.binaries[c.String()])
	if err != nil {
		t.Fatal(err)
	}
	if a.imports != "" { // imported ahead of the program, from another environment
		told, err := json.Marshal(plan.Policy.Env.Set)
		if err != nil {
			t.Fatal(err)
		}
		program.Python.Code = "import os; os.environ.update(" + string(told) + ")\n" + program.Python.Code
		plan.Policy.Env.Set = nil
	}
	var victim sync.WaitGroup
	if c.Victim != Nobody {
		victim.Go(func() { a.victim(t, map[Victim]string{Same: attacker, Other: innocent}[c.Victim]) })
		defer victim.Wait() // it may report to a test only while that runs, even if the attack cannot begin
	}
	report, kept := a.do(t, program, &plan, inputs(files))
	victim.Wait()
	said := report.Stdout.Text + report.Stderr.Text
	for _, wrong := range c.Judge(a.isolation, Seen{
		Outcome: report.Outcome, Message: report.Message, Said: said, Kept: slices.Collect(maps.Keys(kept)),
	}) {
		t.Error(wrong)
	}
	a.host.untouched(t, mark, report, kept)
	a.canary(t)
	if t.Failed() {
		t.Logf("%s %s, signal %q\n%s\n%.4000s", report.Outcome, report.Message, report.Signal, report.Feedback, said)
	}
}

// canary runs a job that checks that its environment is as usual.
func (a *arena) canary(t *testing.T) {
	t.Helper()
	a.canaryOf(t, attacker)
}

func (a *arena) canaryOf(t *testing.T, tenant string) {
	t.Helper()
	const code = `
import os, socket
odd = [f for d in ("/tmp", "/workspace", "/dev/shm") for f in os.listdir(d)]
odd += [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
odd += [n for n in os.environ if n not in ("PATH", "HOME", "LANG", "USER", "LOGNAME", "PYTHONDONTWRITEBYTECODE")]
odd += [n for _, n in socket.if_nameindex() if n != "lo"]
odd += [os.uname().nodename] if os.uname().nodename != "assay" else []
import sys
if IMPORTS and "preload" not in sys.modules["_frozen_importlib"]._find_and_load.__globals__.get("__file__", ""): odd += ["it was not forked with its imports"]
print(6 * 7, odd)`
	quiet := &Attack{Policy: map[string]any{"wall": "30s"}}
	report, _, err := a.try(t.Context(), tenant, job.Program{Python: &job.Python{Code: "IMPORTS = " + strconv.Quote(a.imports) + "\n" + code}}, a.plan(t, quiet), nil)
	if err != nil {
		t.Fatal(err)
	}
	if report.Outcome != job.Succeeded || report.Stdout.Text != "42 []\n" {
		t.Errorf("the canary right after it: %s (%s)\n%s%s", report.Outcome, report.Message, report.Stdout.Text, report.Stderr.Text)
	}
}

// victim runs an innocent job of a tenant meanwhile.
func (a *arena) victim(t *testing.T, tenant string) {
	const code = `
import fcntl, mmap, os, socket, sys, time
open("/tmp/victim", "w").write("intact")
server = socket.socket(); server.bind(("127.0.0.1", 7777)); server.listen(); server.settimeout(0.05)
hidden = socket.socket(socket.AF_UNIX); hidden.bind("\0victim"); hidden.listen(); hidden.settimeout(0.05)
end = time.monotonic() + 2
mine = {f: open(f, "r+" if f[:4] == "/dev" else "r") for f in ("/etc/issue.net", "/dev/full", "/dev/zero", "/dev/null", "/usr/bin/env", "/usr/bin/python3")}
mine["stdin"] = sys.stdin
locked = set()
while time.monotonic() < end:
    open("/etc/issue.net").close(), open("/dev/full").close()
    for name, f in mine.items() if TENANT == "innocent" else ():
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(f, fcntl.LOCK_UN)
            if f.mode == "r+": fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except BlockingIOError:
            locked.add(name)
        except OSError:
            pass  # a kernel without locks on devices
    for s in server, hidden:
        try: s.accept(); print("somebody came")
        except TimeoutError: pass
if locked: print("somebody holds", locked)
print(open("/tmp/victim").read(), os.listdir("/tmp"), os.getpriority(os.PRIO_PROCESS, 0))`
	quiet := &Attack{Policy: map[string]any{"wall": "60s", "env": map[string]any{"set": map[string]string{"VICTIM": "of-victim"}}}}
	told := "TENANT = " + strconv.Quote(tenant) + "\n"
	report, _, err := a.try(t.Context(), tenant, job.Program{Python: &job.Python{Code: told + code}}, a.plan(t, quiet), nil)
	if err != nil {
		t.Errorf("the job beside it: %v", err)
		return
	}
	if report.Outcome != job.Succeeded || report.Stdout.Text != "intact ['victim'] 0\n" {
		t.Errorf("the job beside it: %s (%s)\n%s%s", report.Outcome, report.Message, report.Stdout.Text, report.Stderr.Text)
	}
}

// neighbours runs two honest jobs until the returned function is called, one of the attacks' own
// tenant and one of another. They use all resources that attacks of subject exhaustion take, and
// must not notice the attacks.
func (a *arena) neighbours(t *testing.T) (end func()) {
	quiet := &Attack{Policy: map[string]any{"wall": "20m", "cpu_time": "20m"}}
	plan := a.plan(t, quiet)
	ctx, cancel := context.WithCancelCause(t.Context())
	var jobs sync.WaitGroup
	for _, tenant := range []string{attacker, innocent} {
		jobs.Go(func() {
			report, _, err := a.try(ctx, tenant, job.Program{Python: &job.Python{Code: Neighbour}}, plan, nil)
			if err != nil {
				t.Errorf("the job of %s beside them: %v", tenant, err)
				return
			}
			if report.Outcome != job.OutcomeCanceled || report.Stdout.Text != "round\n" {
				t.Errorf("the job of %s beside them: %s (%s)\n%s%s", tenant, report.Outcome, report.Message, report.Stdout.Text, report.Stderr.Text)
			}
		})
	}
	return func() {
		cancel(runtime.ErrCanceled)
		jobs.Wait()
	}
}

// leaks reports whether any part of the result contains text.
func leaks(report *runtime.Report, kept map[string][]byte, text string) bool {
	raw, err := json.Marshal(report)
	if err != nil {
		return true
	}
	for _, data := range kept {
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return strings.Contains(string(raw), text) || strings.Contains(fmt.Sprint(report), text)
}
