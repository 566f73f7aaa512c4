package runtimetest

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// startsOthers reports which ways of starting a process work. A thread must work.
const startsOthers = `
import ctypes, os, subprocess, sys, threading
def tried(what, f):
    try:
        f(); print(what, "works")
    except OSError as e:
        print(what, e.errno)
def fork():
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
def clone():
    libc = ctypes.CDLL(None, use_errno=True)
    pid = libc.syscall(56 if os.uname().machine == "x86_64" else 220, 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid < 0: raise OSError(ctypes.get_errno(), "clone")
    os.waitpid(pid, 0)
tried("fork", fork)
tried("clone", clone)
tried("spawn", lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0))
tried("run", lambda: subprocess.run(["/bin/true"], check=True))
t = threading.Thread(target=lambda: print("thread works")); t.start(); t.join()
sys.stdout.flush()
`

// callsBeyond makes calls that the engine's default profile allows and strict does not, and some
// that both allow.
const callsBeyond = `
import os, socket, tempfile, subprocess, threading
def tried(what, f):
    try:
        f(); print(what, "works")
    except OSError as e:
        print(what, e.errno)
tried("socket", lambda: socket.socket())
tried("memfd", lambda: os.memfd_create("x"))
tried("mkfifo", lambda: os.mkfifo("/tmp/fifo"))
tried("xattr", lambda: os.listxattr("/tmp"))
tried("pair", lambda: [a.send(b"x") for a, b in [socket.socketpair()]])
tried("file", lambda: tempfile.TemporaryFile().write(b"x"))
tried("run", lambda: subprocess.run(["/bin/sh", "-c", "echo x | cat >/tmp/x"], check=True))
t = threading.Thread(target=lambda: print("thread works")); t.start(); t.join()
`

const (
	othersStart   = "fork works\nclone works\nspawn works\nrun works\nthread works\n"
	othersDoNot   = "fork 1\nclone 1\nspawn 1\nrun 1\nthread works\n"
	callsWork     = "socket works\nmemfd works\nmkfifo works\nxattr works\npair works\nfile works\nrun works\nthread works\n"
	callsDoNot    = "socket 1\nmemfd 1\nmkfifo 1\nxattr 1\npair works\nfile works\nrun works\nthread works\n"
	manyLibraries = "import asyncio, decimal, json, multiprocessing, sqlite3, ssl, numpy as n\nprint(n.linalg.det(n.eye(200)), asyncio.run(asyncio.sleep(0.01, 7)))"
)

// syscalls returns programs about system calls, each with a capability and without it.
func syscalls() []program {
	alone := func(p *policy.Policy) { p.Subprocesses = false }
	strict := func(p *policy.Policy) { p.Syscalls = "strict" }
	command := func(code string) job.Program {
		return job.Program{Command: &job.Command{Argv: []string{"python3", "-c", code}}}
	}
	return []program{
		{name: "subprocesses", outcome: job.Succeeded, run: py(startsOthers), check: stdoutIs(othersStart)},
		{name: "no subprocesses", outcome: job.Succeeded, run: py(startsOthers), edit: alone,
			check: with(stdoutIs(othersDoNot), rowIs("subprocesses", "forbidden", job.LevelKernel))},
		{name: "no subprocesses of a command", outcome: job.Succeeded, run: command(startsOthers), edit: alone, check: stdoutIs(othersDoNot)},
		{name: "no subprocesses and a fresh interpreter", outcome: job.Succeeded, run: py(startsOthers), check: stdoutIs(othersDoNot),
			edit: func(p *policy.Policy) { p.Subprocesses, p.Env.Set = false, map[string]string{"PYTHONHASHSEED": "1"} }},
		{name: "syscalls", outcome: job.Succeeded, run: py(callsBeyond), check: stdoutIs(callsWork)},
		{name: "strict syscalls", outcome: job.Succeeded, run: py(callsBeyond), edit: strict,
			check: with(stdoutIs(callsDoNot), rowIs("syscalls", "strict", job.LevelKernel))},
		{name: "strict syscalls of a command", outcome: job.Succeeded, run: command(callsBeyond), edit: strict, check: stdoutIs(callsDoNot)},
		{name: "strict syscalls do for libraries", outcome: job.Succeeded, run: py(manyLibraries), edit: strict, check: stdoutIs("1.0 7\n")},
		{name: "strict syscalls and no subprocesses", outcome: job.Succeeded, run: py(startsOthers), check: stdoutIs(othersDoNot),
			edit: func(p *policy.Policy) { alone(p); strict(p) }},
	}
}

func with(checks ...func(*testing.T, *ran)) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		for _, c := range checks {
			c(t, r)
		}
	}
}

// rowIs checks a row of the enforcement report.
func rowIs(capability, applied string, level job.Level) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		for _, row := range r.Enforcement {
			if row.Capability == capability {
				if row.Requested != applied || row.Applied != applied || row.Level != level || row.Mechanism == "" {
					t.Errorf("row %+v, want %s at level %s", row, applied, level)
				}
				return
			}
		}
		t.Errorf("no row %s in %+v", capability, r.Enforcement)
	}
}
