package cell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// cellJob runs one job in a cell of r.
func cellJob(t testing.TB, r *Runtime, p job.Program, edit func(*policy.Policy)) *runtime.Report {
	t.Helper()
	s, err := r.Acquire(t.Context(), cellKeys[p.Kind()])
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	defer s.Close()
	rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: p, Plan: cellPlan(edit)})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return rep
}

func cellPlan(edit func(*policy.Policy)) *policy.Plan {
	p := policy.Default()
	p.Isolation = policy.Cell
	if edit != nil {
		edit(&p)
	}
	return &policy.Plan{Policy: p, Enforcement: []job.Enforcement{{Capability: "isolation"}}}
}

func pySnippet(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }

func shell(script string) job.Program {
	return job.Program{Command: &job.Command{Argv: []string{"bash", "-c", script}}}
}

// Two jobs of one cell run at the same time; each looks for the other by every
// way that two processes of a machine may meet.
func TestCellJobsDoNotMeet(t *testing.T) {
	r := newRuntime(t, nil)
	meet := `
import ctypes, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
me = os.environ["ME"]
found = []
servers = []
def bind(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    try:
        s.bind(address)
        s.listen()
    except OSError as e:
        found.append("%r is taken: %s" % (address, e))
    servers.append(s)
bind(socket.AF_UNIX, "\0meeting")
bind(socket.AF_INET, ("127.0.0.1", 7777))
key = 4711
queue = libc.msgget(key, 0o1000 | 0o2000 | 0o666)  # IPC_CREAT | IPC_EXCL
if queue < 0:
    found.append("a message queue of somebody else")
for place in "/tmp", "/workspace", "/dev/shm":
    if os.listdir(place):
        found.append("files in %s: %s" % (place, os.listdir(place)))
    open(place + "/" + me, "w").write("x")
if os.uname().nodename != "assay":
    found.append(os.uname().nodename)
time.sleep(1.5)
for place in "/tmp", "/workspace", "/dev/shm":
    if os.listdir(place) != [me]:
        found.append("files in %s: %s" % (place, os.listdir(place)))
pids = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
if len(pids) > 2:
    found.append("processes %s" % pids)
for line in open("/proc/net/unix").read().splitlines()[1:]:
    if "meeting" in line and int(line.split()[6]) != os.fstat(servers[0].fileno()).st_ino:
        found.append("socket of somebody else: " + line)
for line in open("/proc/self/cgroup"):
    if line.strip().split(":")[2] not in ("/", "") and not line.split(":")[1].startswith(("cpuset", "devices", "freezer", "blkio", "name=", "net", "perf", "hugetlb", "rdma", "misc")) and line.split(":")[1]:
        found.append("control group " + line)
print(found)`
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			rep := cellJob(t, r, pySnippet(meet), func(p *policy.Policy) { p.Env.Set["ME"] = fmt.Sprint("job", i) })
			if rep.Stdout.Text != "[]\n" {
				t.Errorf("job %d found: %s%s", i, rep.Stdout.Text, rep.Stderr.Text)
			}
		})
	}
	wg.Wait()
	if n := len(r.cells.live); n != 1 {
		t.Errorf("%d cells, want all in one", n)
	}
}

// Nothing of one job is there for the next, whichever slot it gets.
func TestCellJobsLeaveNothing(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 2 })
	for i := range 6 {
		rep := cellJob(t, r, pySnippet(`
import builtins, ctypes, gc, os, random, subprocess, sys
left = [n for n in ("stain",) if hasattr(builtins, n)] + [m for m in ("stain",) if m in sys.modules]
left += [p for d in ("/tmp", "/workspace", "/dev/shm") for p in os.listdir(d)]
libc = ctypes.CDLL(None)
left += ["queue"] if libc.msgget(99, 0) >= 0 else []
print(left, os.environ.get("STAIN"), gc.isenabled(), random.random())
builtins.stain = sys.modules["stain"] = sys
os.environ["STAIN"] = "x"
for d in "/tmp", "/workspace", "/dev/shm": open(d + "/stain", "w").write("x" * 1000)
libc.msgget(99, 0o1000 | 0o666)
subprocess.Popen(["sh", "-c", "setsid sleep 1000 & setsid sh -c 'while :; do sleep 1; done' &"])
`), nil)
		f := strings.Fields(rep.Stdout.Text)
		if len(f) != 4 || f[0] != "[]" || f[1] != "None" || f[2] != "True" {
			t.Errorf("job %d: %s%s", i, rep.Stdout.Text, rep.Stderr.Text)
		}
	}
}

// Random numbers of jobs that were forked from one interpreter differ.
func TestCellRandomness(t *testing.T) {
	r := newRuntime(t, nil)
	seen := map[string]bool{}
	for range 4 {
		rep := cellJob(t, r, pySnippet("import random, uuid, tempfile, os; print(random.random(), uuid.uuid4(), next(tempfile._get_candidate_names()), os.urandom(4))"), nil)
		for _, f := range strings.Fields(rep.Stdout.Text) {
			if seen[f] {
				t.Errorf("%s came twice", f)
			}
			seen[f] = true
		}
	}
}

// Tenants never share a cell.
func TestCellOfAnotherTenant(t *testing.T) {
	r := newRuntime(t, nil)
	uids := map[string]bool{}
	for _, tenant := range []string{"a", "b"} {
		key := cellKeys["command"]
		key.Tenant = tenant
		s, err := r.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Program: shell("cat /proc/self/uid_map"), Plan: cellPlan(nil)})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		uids[rep.Stdout.Text] = true
	}
	if len(r.cells.live) != 2 || len(uids) != 2 {
		t.Errorf("%d cells with the users %v, want two", len(r.cells.live), uids)
	}
}

// Attacks of a job on its own walls, from inside.
func TestCellWalls(t *testing.T) {
	r := newRuntime(t, nil)
	for name, p := range map[string]job.Program{
		"kill everything": shell("sleep 100 & kill -9 -1; sleep 0.2; echo alive"),
		"nested user namespace": pySnippet(`
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for flags in 0x10000000, 0x10020000, 0x20000000, 0x40000000, 0x02000000, 0x80:
    if libc.unshare(flags) == 0: print("unshare", hex(flags))
    pid = libc.syscall(56, flags | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: print("clone", hex(flags))
if libc.syscall(435, None, 0) != -1 or ctypes.get_errno() != 38: print("clone3", ctypes.get_errno())
print("alive")`),
		"other numbers for the same calls": pySnippet(`
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(0x40000000 + 272, 0x10000000) != -1: print("x32 unshare")
# mov eax, 310 (unshare of i386); mov ebx, 0x10000000; int 0x80; ret
code = b"\x53\xb8\x36\x01\x00\x00\xbb\x00\x00\x00\x10\xcd\x80\x5b\xc3"
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
m.write(code)
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
if f() == 0: print("i386 unshare")
print("alive")`),
		"process 1": shell(`
for f in environ mem maps stack syscall fd fdinfo ns root exe cwd map_files auxv; do
	if ls /proc/1/$f/ >/dev/null 2>&1 && [ $f != ns ]; then echo "lists $f"; fi
	if head -c 1 /proc/1/$f >/dev/null 2>&1; then echo "reads $f"; fi
done
kill -STOP 1; kill -SEGV 1; kill -TERM 1
echo alive`),
		"the slot": pySnippet(`
import os
for fd in os.listdir("/proc/self/fd"):
    try: target = os.readlink("/proc/self/fd/" + fd)
    except OSError: continue
    if "socket" in target or "net" in target or "pidfd" in target: print(fd, target)
print("alive")`),
		"the slot of a command": shell(`for fd in /proc/self/fd/*; do case $(readlink $fd) in *socket*|*pidfd*) echo $fd;; esac; done; echo alive`),
		"cell files":            shell(`ls -A /run/assay; ls /proc/1/root 2>/dev/null; grep -c -E 'zygote|/run/assay' /proc/self/mountinfo; echo alive`),
		"capabilities of set-user-id": shell(`
cp /usr/bin/env /tmp/e && chmod 6755 /tmp/e && /tmp/e grep -E '^Cap(Eff|Bnd)' /proc/self/status | grep -v 0000000000000000; echo alive`),
		"write to the maps": shell(`for f in uid_map gid_map setgroups; do echo "0 0 1" >/proc/self/$f && echo $f; done 2>/dev/null; echo alive`),
		"interfaces":        pySnippet("import socket\nprint([n for _, n in socket.if_nameindex()] == ['lo'] and 'alive')"),
		"cores": pySnippet(`
import os
print("alive" if os.cpu_count() == 1 else os.cpu_count())`),
	} {
		t.Run(name, func(t *testing.T) {
			rep := cellJob(t, r, p, nil)
			want := "alive\n"
			if name == "cell files" {
				want = "0\nalive\n"
			}
			if rep.Stdout.Text != want {
				t.Errorf("stdout = %q, stderr = %q", rep.Stdout.Text, rep.Stderr.Text)
			}
		})
	}
	if rep := cellJob(t, r, shell("echo fine"), nil); rep.Stdout.Text != "fine\n" {
		t.Errorf("the cell afterwards: %+v", rep)
	}
}

// A job is in its control group before its first instruction, and nothing that
// it starts is ever outside of it.
func TestCellControlGroups(t *testing.T) {
	r := newRuntime(t, nil)
	for kind, p := range map[string]job.Program{
		"python":  pySnippet("import os, time\nos.fork()\nos.setsid() if os.getpid() > 2 else 0\nx = bytearray(8 << 20)\ntime.sleep(60)"),
		"command": shell("setsid sleep 60 & sleep 60"),
	} {
		s, err := r.Acquire(t.Context(), cellKeys[kind])
		if err != nil {
			t.Fatal(err)
		}
		slot := s.(*slot)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.Run(ctx, runtime.Attempt{Job: job.NewID(), Program: p, Plan: cellPlan(nil)})
		}()
		want := map[string]int{"python": 2, "command": 4}[kind] // with the supervisor
		var pids []int
		for deadline := time.Now().Add(20 * time.Second); len(pids) != want && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if pids, err = slot.Group.Pids(); err != nil {
				t.Fatal(err)
			}
		}
		if len(pids) != want {
			t.Errorf("%s: the control group has processes %v, want %d", kind, pids, want)
		}
		for _, pid := range pids {
			status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
			if err == nil && !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d", slot.hostUID())) {
				t.Errorf("%s: %s", kind, status)
			}
		}
		cancel()
		<-done
		s.Close()
	}
}

// A guest that dies takes its jobs along, as our failure, and the next job gets
// another cell.
func TestCellGuestDies(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 4 })
	for _, victim := range []string{"launcher", "zygote", "supervisor"} {
		t.Run(victim, func(t *testing.T) {
			cellJob(t, r, pySnippet("1"), nil)
			s, err := r.Acquire(t.Context(), cellKeys["python"])
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			slot := s.(*slot)
			pid := map[string]int{
				"launcher": slot.cell.container.Proc.PID, "supervisor": slot.sup.PID, "zygote": childOf(t, slot.cell.container.Proc.PID, "python3"),
			}[victim]
			failed := make(chan error, 1)
			go func() {
				_, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Program: pySnippet("import time; time.sleep(30)"), Plan: cellPlan(nil)})
				failed <- err
			}()
			time.Sleep(100 * time.Millisecond) // it may be killed before or after it starts: both are ours
			p, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-failed:
				if err == nil {
					t.Error("the job of a dead guest has an outcome")
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the job of a dead guest goes on")
			}
			for range 6 {
				if rep := cellJob(t, r, pySnippet("print('again')"), nil); rep.Stdout.Text != "again\n" {
					t.Errorf("afterwards: %+v", rep)
				}
			}
		})
	}
}

// childOf finds a process by its parent and name.
func childOf(t *testing.T, parent int, name string) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stats {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(data))
		if len(fields) > 3 && fields[1] == "("+name+")" && fields[3] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(fields[0])
			return pid
		}
	}
	t.Fatalf("process %d has no child %s", parent, name)
	return 0
}

// A cell is replaced after so many jobs, without any of them noticing.
func TestCellIsRecycled(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm, c.CellJobs = 2, 5 })
	ids := map[string]bool{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 3 {
		wg.Go(func() {
			for range 8 {
				s, err := r.Acquire(t.Context(), cellKeys["command"])
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[s.(*slot).cell.container.ID] = true
				mu.Unlock()
				rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Program: shell("sleep 0.01"), Plan: cellPlan(nil)})
				if err != nil || rep.Outcome != job.Succeeded {
					t.Errorf("Run: %+v, %v", rep, err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	if len(ids) < 4 {
		t.Errorf("24 jobs ran in %d cells of 5", len(ids))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		left, err := r.cells.cfg.Engine.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) <= 1 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
