package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// wall is the mechanism that enforces a capability under one kind of isolation. The zero wall is
// none.
type wall struct {
	mechanism string
	level     job.Level
}

func kernel(mechanism string) wall { return wall{mechanism, job.LevelKernel} }
func worker(mechanism string) wall { return wall{mechanism, job.LevelRuntime} }

// walls maps each isolation to the mechanism for a capability. A strict policy is rejected if its
// isolation has no entry.
type walls map[Isolation]wall

// inCellAndTask is for mechanisms that are equal in both: a cell's jobs have the same kernel walls
// as a task's.
func inCellAndTask(w wall) walls { return walls{Cell: w, Task: w} }

// everywhere is for mechanisms outside the sandbox.
func everywhere(w wall) walls { return inCellAndTask(w).foreign(w) }

// foreign adds the mechanism for sandboxes with a kernel of their own.
func (w walls) foreign(f wall) walls {
	w[GVisor], w[VM] = f, f
	return w
}

// capability is one row of the table: a capability, or one way to request it.
type capability struct {
	name    string                     // as in the policy and in the report
	when    func(*Policy) bool         // whether this row applies; nil: the only row of its capability
	asked   func(*Policy) string       // renders the request for the report
	applied func(*Policy, Host) string // renders what the host applies at most; nil: all of it
	free    bool                       // requests nothing, so there is nothing to enforce
	without string                     // rendered value if nothing enforces it
	by      walls
	as      map[Use]wall   // a different mechanism for a use, under any isolation
	unfit   map[Use]string // uses without enforcement, each with the reason
}

// oneReason marks a capability as not enforced for these uses.
func oneReason(reason string, uses ...Use) map[Use]string {
	out := make(map[Use]string, len(uses))
	for _, u := range uses {
		out[u] = reason
	}
	return out
}

// inSessions sets a different mechanism for sessions of both kinds.
func inSessions(w wall) map[Use]wall { return map[Use]wall{UseSession: w, UseShell: w} }

// andTests adds the mechanism for a graded solution.
func andTests(m map[Use]wall, w wall) map[Use]wall {
	m[UseTests] = w
	return m
}

// collected is the wall for a stream of a session. The interpreter collects the output in its own
// memory, so code in the session could falsify it.
var collected = wall{"collected by the session's interpreter, interrupted at the limit, and cut by the worker", job.LevelHarness}

// ofEachRun is the wall for a stream of a graded solution.
var ofEachRun = worker("collector that keeps draining, for each run of the solution")

// capabilities lists every capability with its mechanisms, in the order of the policy's fields. A
// new mechanism needs an entry here and a test that tries to bypass it.
var capabilities = []capability{
	{name: "isolation", asked: func(p *Policy) string { return string(p.Isolation) },
		by: walls{
			Cell:   kernel("namespaces and cgroup of its own, in the tenant's containerd task"),
			Task:   kernel("containerd task, runc, user namespace"),
			GVisor: kernel("containerd task, runsc: a kernel of its own, user namespace"),
			VM:     kernel("containerd task with the handler of the worker's configuration"),
		}},
	{name: "wall", asked: func(p *Policy) string { return p.Wall.String() }, without: "unlimited",
		by: everywhere(worker("timer that pauses while the program waits for a core, kill of the pid namespace")),
		as: inSessions(worker("timer of each execution, paused while it waits for a core: interrupt, then kill of the pid namespace"))},
	{name: "cpu", asked: func(p *Policy) string { return fmt.Sprint(p.CPU) }, without: "unlimited", applied: coresOf,
		by: everywhere(kernel("cgroup cpu quota"))},
	{name: "cpu_time", asked: func(p *Policy) string { return p.CPUTime.String() }, without: "unlimited",
		by: everywhere(worker("cgroup cpu meter, kill")),
		as: andTests(inSessions(worker("cgroup cpu meter, between the ends of two executions: interrupt, then kill")),
			worker("one cpu meter over the cgroups of all sandboxes, kill"))},
	{name: "memory", asked: func(p *Policy) string { return p.Memory.String() }, without: "unlimited",
		by: inCellAndTask(kernel("cgroup memory")).foreign(kernel("cgroup memory of the sandbox, plus 96 MiB for its kernel"))},
	{name: "stack", when: func(p *Policy) bool { return p.Stack == 0 }, asked: stackAsked, applied: stackApplied, without: "unlimited",
		by: inCellAndTask(kernel("rlimit stack, which the program may raise up to its memory")).foreign(kernel("rlimit stack of the sandbox's kernel"))},
	{name: "stack", asked: stackAsked, applied: stackApplied, without: "unlimited",
		by: inCellAndTask(kernel("rlimit stack, soft and hard")).foreign(kernel("rlimit stack of the sandbox's kernel, soft and hard, at most 128Mi"))},
	{name: "processes", asked: func(p *Policy) string { return fmt.Sprint(p.Processes) }, without: "unlimited",
		by: inCellAndTask(kernel("cgroup pids")).foreign(kernel("rlimit nproc of the sandbox's kernel"))},
	{name: "subprocesses", when: func(p *Policy) bool { return p.Subprocesses }, asked: is("allowed"), free: true},
	{name: "subprocesses", asked: is("forbidden"), without: "allowed",
		by: inCellAndTask(kernel("seccomp: no new process, threads only")).foreign(kernel("seccomp of the sandbox's kernel: no new process, threads only"))},
	{name: "disk", asked: func(p *Policy) string { return p.Disk.String() }, without: "unlimited",
		by: everywhere(kernel("tmpfs size"))},
	{name: "files", asked: func(p *Policy) string { return fmt.Sprint(p.Files) }, without: "unlimited",
		by: everywhere(kernel("tmpfs inodes"))},
	{name: "open_files", asked: func(p *Policy) string { return fmt.Sprint(p.OpenFiles) }, without: "unlimited",
		by: inCellAndTask(kernel("rlimit nofile")).foreign(kernel("rlimit nofile of the sandbox's kernel"))},
	{name: "stdout", asked: func(p *Policy) string { return p.Stdout.String() }, without: "unlimited",
		by: everywhere(worker("collector that keeps draining")), as: andTests(inSessions(collected), ofEachRun)},
	{name: "stderr", asked: func(p *Policy) string { return p.Stderr.String() }, without: "unlimited",
		by: everywhere(worker("collector that keeps draining")), as: andTests(inSessions(collected), ofEachRun)},
	{name: "read", when: func(p *Policy) bool { return len(p.Read) == 0 }, asked: is("image and inputs"), without: "unrestricted",
		by: inCellAndTask(kernel("mount namespace")).foreign(kernel("mount namespace of the sandbox"))},
	{name: "read", asked: func(p *Policy) string { return names(p.Read) }, without: "image and inputs",
		by: inCellAndTask(kernel("mount namespace, inputs bound read-only")).foreign(kernel("mount namespace of the sandbox, inputs bound read-only"))},
	{name: "write", asked: func(p *Policy) string { return names(p.Write) }, without: "unrestricted",
		by: inCellAndTask(kernel("mount namespace, read-only root")).foreign(kernel("mount namespace of the sandbox, read-only root"))},
	{name: "network", when: func(p *Policy) bool { return p.Network.Mode == NetworkNone }, asked: is("none"), without: "open",
		by: inCellAndTask(kernel("network namespace, loopback only")).foreign(kernel("network stack of the sandbox, loopback only"))},
	{name: "network", when: func(p *Policy) bool { return p.Network.Mode == NetworkAllow }, without: "none",
		asked: func(p *Policy) string { return "allow " + names(p.Network.Allow) + "; " + p.Network.MaxBytes.String() },
		by:    inCellAndTask(worker("network namespace without a way out, proxy with an allow-list")).foreign(worker("network namespace without a way out, proxy with an allow-list"))},
	{name: "network", asked: func(p *Policy) string { return "open; " + p.Network.MaxBytes.String() }, without: "none",
		by: inCellAndTask(worker("network namespace without a way out, proxy to every public address")).foreign(worker("network namespace without a way out, proxy to every public address"))},
	{name: "env.set", asked: func(p *Policy) string { return names(sorted(p.Env.Set)) }, without: "inherited",
		by: everywhere(worker("environment built from scratch"))},
	{name: "env.secrets", when: func(p *Policy) bool { return len(p.Env.Secrets) == 0 }, asked: is("none"), free: true},
	{name: "env.secrets", asked: func(p *Policy) string { return names(sorted(p.Env.Secrets)) }, without: "none",
		by:    everywhere(worker("sent to the worker with the claim, masked in output")),
		unfit: oneReason("sessions do not receive secrets; pass the value as a variable if the session may read it", UseSession, UseShell)},
	{name: "imports", asked: is("unrestricted"), free: true,
		when: func(p *Policy) bool { return !p.Imports.Any() }},
	{name: "imports", asked: func(p *Policy) string { return p.Imports.String() }, without: "unrestricted",
		by: everywhere(wall{"checks before the snippet runs and at each import; not a security boundary", job.LevelHarness}),
		as: map[Use]wall{
			UseTests:   {"checks before the solution runs and at each import; not a security boundary", job.LevelHarness},
			UseSession: {"checks before each snippet runs and at each import; not a security boundary", job.LevelHarness},
		},
		unfit: oneReason("only the imports of python code are checked", UseCommand, UseCode, UseShell)},
	{name: "packages", when: func(p *Policy) bool { return len(p.Packages) == 0 }, asked: is("none"), free: true},
	{name: "packages", asked: func(p *Policy) string { return names(p.Packages) }, without: "none",
		by: everywhere(worker("environment built once, in a sandbox that reaches only the package index"))},
	{name: "syscalls", when: func(p *Policy) bool { return p.Syscalls == "default" }, asked: is("default"), without: "unrestricted",
		by: inCellAndTask(kernel("seccomp, the engine's default profile")).foreign(kernel("the sandbox's kernel, and its seccomp with the engine's default profile"))},
	{name: "syscalls", asked: is("strict"), without: "default",
		by: inCellAndTask(kernel("seccomp, an allow-list within the engine's default profile")).foreign(kernel("the sandbox's kernel, and its seccomp with an allow-list"))},
	{name: "callbacks", asked: is("none"), free: true,
		when: func(p *Policy) bool { return len(p.Callbacks.Allow) == 0 }},
	{name: "callbacks", asked: callbacksAsked, without: "none",
		by:    everywhere(worker("passed on by name and counted")),
		unfit: oneReason("only python sessions have host functions", UsePython, UseCommand, UseTests, UseCode, UseShell)},
	{name: "artifacts", when: func(p *Policy) bool { return len(p.Artifacts.Paths) == 0 }, asked: is("none"), free: true},
	{name: "artifacts", asked: artifactsAsked, without: "none",
		by: everywhere(worker("opened beneath the sandbox root, links not followed")),
		as: inSessions(worker("opened beneath the sandbox root on request and at the end, links not followed"))},
}

func is(s string) func(*Policy) string { return func(*Policy) string { return s } }

func (s Stream) String() string { return s.Limit.String() + ", " + string(s.OnExceed) }

// coresOf returns the cores of the host, at most those requested.
func coresOf(p *Policy, h Host) string {
	cores := p.CPU
	if h.Cores > 0 {
		cores = min(cores, float64(h.Cores))
	}
	return fmt.Sprint(cores)
}

func callbacksAsked(p *Policy) string {
	c := p.Callbacks
	if len(c.Allow) > 0 && c.MaxCalls == 0 {
		return names(c.Allow) + "; any number of calls"
	}
	return fmt.Sprintf("%s; %d calls", names(c.Allow), c.MaxCalls)
}

func artifactsAsked(p *Policy) string {
	a := p.Artifacts
	return fmt.Sprintf("%s; %s, %d files", names(a.Paths), a.MaxBytes, a.MaxFiles)
}

// names renders a list for the report, which is part of every result: the first few entries and the
// number of others.
func names(list []string) string {
	const few = 8
	switch {
	case len(list) == 0:
		return "none"
	case len(list) > few:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
	}
	return strings.Join(list, ", ")
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
