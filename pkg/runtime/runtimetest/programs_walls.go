package runtimetest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// walls returns programs that explore and attack the sandbox.
func walls() []program {
	return []program{
		{name: "identity", outcome: job.Succeeded, run: sh(`id -u; id -g; grep -E '^(Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status`),
			check: func(t *testing.T, r *ran) {
				want := []string{"1000", "1000", "Groups:"}
				for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
					want = append(want, "Cap"+set+": 0000000000000000")
				}
				want = append(want, "NoNewPrivs: 1", "Seccomp: 2")
				var got []string
				for line := range strings.Lines(r.Stdout.Text) {
					got = append(got, strings.Join(strings.Fields(line), " "))
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}},
		{name: "nobody on the host", foreign: itsOwn, outcome: job.Succeeded, run: sh("cat /proc/self/uid_map"), check: func(t *testing.T, r *ran) {
			f := strings.Fields(r.Stdout.Text)
			if len(f) != 3 || len(f[1]) < 6 { // a range from 0, or only the program's own id
				t.Errorf("uid_map = %q, want one range of high ids outside", r.Stdout.Text)
			}
		}},
		{name: "environment", outcome: job.Succeeded, run: command("env"),
			edit: func(p *policy.Policy) { p.Env.Set = map[string]string{"GIVEN": "a b=c", "HOME": "/tmp"} },
			check: func(t *testing.T, r *ran) {
				got := map[string]string{}
				for line := range strings.Lines(r.Stdout.Text) {
					k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
					got[k] = v
				}
				if got["GIVEN"] != "a b=c" || got["HOME"] != "/tmp" {
					t.Errorf("environment = %v", got)
				}
				// PYTHON… comes from the image
				ours := []string{"GIVEN", "HOME", "LANG", "LOGNAME", "PATH", "PYTHONDONTWRITEBYTECODE", "USER"}
				if d := cmp.Diff(ours, slices.Sorted(maps.Keys(got))); d != "" {
					t.Errorf("names (-want +got):\n%s", d)
				}
			}},
		{name: "account", outcome: job.Succeeded, run: sh(`whoami; id -un; id -gn; echo "$USER $LOGNAME"; getent passwd 1000 | cut -d: -f6; echo ~; cd; touch probe`),
			check: stdoutIs("assay\nassay\nassay\nassay assay\n/workspace\n/workspace\n")},
		{name: "account in python", outcome: job.Succeeded, run: py(`
import getpass, grp, os, pathlib, pwd
user = pwd.getpwuid(os.getuid())
print(getpass.getuser(), user.pw_name, grp.getgrgid(os.getgid()).gr_name)
print(user.pw_dir == os.environ["HOME"] == os.path.expanduser("~") == str(pathlib.Path.home()), os.path.exists(user.pw_shell))
(pathlib.Path.home() / ".cache" / "x").mkdir(parents=True)
del os.environ["USER"], os.environ["LOGNAME"], os.environ["HOME"]
print(getpass.getuser(), os.path.expanduser("~assay"))`), check: stdoutIs("assay assay assay\nTrue True\nassay /workspace\n")},
		{name: "time zones", outcome: job.Succeeded, run: sh(`TZ=Asia/Tokyo date -d @0 +%H:%M%z; TZ=US/Eastern date -d @0 +%H:%M%z; date -d @0 +%H:%M%z`),
			check: stdoutIs("09:00+0900\n19:00-0500\n00:00+0000\n")},
		{name: "time zones in python", outcome: job.Succeeded, run: py(`
import datetime, os, time, zoneinfo
print(datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("America/New_York")).isoformat())
print(zoneinfo.ZoneInfo("UTC"), "Europe/Paris" in zoneinfo.available_timezones())
os.environ["TZ"] = "Europe/Berlin"
time.tzset()
print(time.tzname, time.strftime("%H", time.localtime(0)))`), check: stdoutIs("2024-07-01T12:00:00-04:00\nUTC True\n('CET', 'CEST') 01\n")},
		{name: "locale", outcome: job.Succeeded, run: sh(`x=é測; echo ${#x}; locale charmap 2>&1; python3 -c 'import sys; print(sys.stdout.encoding, sys.getfilesystemencoding())'`),
			check: stdoutIs("2\nUTF-8\nutf-8 utf-8\n")},
		{name: "network", outcome: job.Succeeded, run: py(`
import os, socket
print([name for _, name in socket.if_nameindex()])
for family, address in (socket.AF_INET, "1.1.1.1"), (socket.AF_INET, "169.254.169.254"), (socket.AF_INET6, "2606:4700::1111"):
    try:
        socket.create_connection((address, 80), timeout=2)
        print("connected to", address)
    except OSError:
        pass
try:
    print("resolved", socket.getaddrinfo("example.org", 80))
except OSError:
    pass
s = socket.create_server(("127.0.0.1", 0))
socket.create_connection(s.getsockname(), timeout=2)
print("loopback")`), check: stdoutIs("['lo']\nloopback\n")},
		{name: "root is read-only", outcome: job.Succeeded, run: py(`
import os, stat
places = {line.split()[4] for line in open("/proc/self/mountinfo")} | {"/", "/etc", "/usr", "/var", "/home", "/run", "/run/assay", "/dev", "/root"}
for place in sorted(places):
    try:
        if os.path.isdir(place):
            open(place + "/probe", "w").close()
            print(place)
        elif stat.S_ISREG(os.stat(place).st_mode):
            open(place, "r+b").close()
            print(place)
    except OSError:
        pass`), check: stdoutIs("/dev/shm\n/tmp\n/workspace\n")},
		{name: "processes of others", outcome: job.Succeeded, run: py(`
import os, time
me = os.getpid()
for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
    if pid in (1, me):
        continue
    print("sees", pid, open("/proc/%d/comm" % pid).read())
for f in "environ", "mem", "maps", "fd/0", "root", "cwd":
    try:
        os.stat("/proc/1/" + f) if f in ("root", "cwd", "fd/0") else open("/proc/1/" + f, "rb")
        print("reads", f)
    except OSError:
        pass
try:
    os.kill(1, 9)
    time.sleep(0.1) # refused or without effect: its end would be ours
except OSError:
    pass`), check: stdoutIs("")},
		{name: "system calls", outcome: job.Succeeded, run: py(`
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def denied(name, *args):
    ctypes.set_errno(0)
    if getattr(libc, name)(*args) != -1:
        print(name, "works")
denied("unshare", 0x10000000)
denied("unshare", 0x00020000)
denied("mount", b"none", b"/tmp", b"tmpfs", 0, None)
denied("umount2", b"/tmp", 2)
denied("chroot", b"/tmp")
denied("setuid", 0)
denied("setgid", 0)
denied("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)
denied("ptrace", 16, 1, 0, 0)
denied("mknod", b"/tmp/sda", 0o060666, 0x800)
denied("sethostname", b"x", 1)
denied("syscall", 321, 0, 0, 0)  # bpf
denied("syscall", 323, 0)        # userfaultfd
denied("syscall", 298, 0, 0, 0)  # perf_event_open
denied("syscall", 248, 0, 0, 0)  # add_key
denied("syscall", 246, 0, 0, 0, 0) # kexec_load
denied("syscall", 425, 8, 0)     # io_uring_setup`), check: stdoutIs("")},
		{name: "kernel files", outcome: job.Succeeded, run: sh(`
			for f in /proc/kcore /proc/keys /proc/timer_list /proc/sysrq-trigger /sys/firmware/* /dev/mem /dev/kmsg /dev/sda /dev/vda; do
				if [ -s $f ] && head -c 1 $f; then echo " reads $f"; fi
			done 2>/dev/null
			for f in /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/mm/ksm/run; do
				if echo 0 >$f; then echo "writes $f"; fi
			done 2>/dev/null; true`), check: stdoutIs("")},
		{name: "setuid programs", outcome: job.Succeeded, run: sh(`cp /usr/bin/id /tmp/id && chmod u+s /tmp/id && /tmp/id -u; su -c id root </dev/null >/dev/null 2>&1 && echo root; true`),
			check: stdoutIs("1000\n")},
		{name: "devices", foreign: itsOwn, outcome: job.Succeeded, run: sh(`ls /dev | tr '\n' ' '; echo >/dev/null && head -c 3 /dev/zero | wc -c && head -c 3 /dev/urandom | wc -c`),
			check: func(t *testing.T, r *ran) {
				names, rest, _ := strings.Cut(r.Stdout.Text, "\n")
				want := []string{"core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
				for f := range strings.FieldsSeq(names) {
					if !slices.Contains(want, f) && f != "3" {
						t.Errorf("unexpected device %s", f)
					}
				}
				if !strings.HasSuffix(r.Stdout.Text, "3\n3\n") {
					t.Errorf("devices do not work: %q", rest)
				}
			}},
		{name: "shared memory", outcome: job.Succeeded, check: stdoutIs("ok\n"), run: py(`
import multiprocessing
lock = multiprocessing.get_context("fork").Lock()
with lock: print("ok")`)},
		{name: "other writable paths", outcome: job.Succeeded, run: sh(`touch /data/out/x && cd /data/out && pwd; touch /tmp/x 2>/dev/null && echo /tmp; true`),
			edit: func(p *policy.Policy) { p.Write = []string{"/workspace", "/data/out"} }, check: stdoutIs("/data/out\n")},
		{name: "writable paths below /tmp", outcome: job.Succeeded, run: sh(`touch '/tmp/a b/x' && ls /tmp; touch /tmp/x 2>/dev/null && echo writes; true`),
			edit: func(p *policy.Policy) { p.Write = []string{"/tmp/a b"} }, check: stdoutIs("a b\n")},
		{name: "no writable path", outcome: job.Succeeded, run: sh(`pwd; touch /tmp/x /workspace/x 2>/dev/null && echo writes; true`),
			edit: func(p *policy.Policy) { p.Write = []string{} }, check: stdoutIs("/workspace\n")}, // the image's directory
	}
}

func inputsAndArtifacts() []program {
	keep := func(paths ...string) func(*policy.Policy) {
		return func(p *policy.Policy) { p.Artifacts.Paths = paths }
	}
	stream := func(data string) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
	}
	return []program{
		{name: "inputs", outcome: job.Succeeded, check: stdoutIs("one two 1000 644\nran\n"),
			run: sh("cat a deep/er/b; stat -c ' %u %a' a; ./script"), files: []runtime.File{
				{Path: "/workspace/a", Data: []byte("one ")},
				{Path: "/workspace/deep/er/b", Open: stream("two")},
				{Path: "/workspace/script", Data: []byte("#!/bin/sh\necho ran\n")},
			}},
		{name: "inputs in a read-only /tmp", outcome: job.Succeeded, edit: func(p *policy.Policy) { p.Write, p.Read = []string{"/workspace"}, []string{"/tmp"} },
			run: sh(`cat /tmp/a; touch /tmp/x 2>/dev/null && echo writes; true`), check: stdoutIs("one\n"), files: []runtime.File{{Path: "/tmp/a", Data: []byte("one\n")}}},
		{name: "inputs to be read", outcome: job.Succeeded, edit: func(p *policy.Policy) { p.Read = []string{"/data", "/workspace2/in"} },
			run: sh(`cat /data/a /workspace2/in/d/b
				for f in /data/a /data/new /workspace2/in/d/b /workspace2/in/d/c; do { echo x >>$f; } 2>/dev/null && echo "writes $f"; done
				rm -f /data/a 2>/dev/null && echo removes; chmod 777 /data 2>/dev/null && echo chmods; mv /data /tmp/x 2>/dev/null && echo moves
				ln /data/a /tmp/a 2>/dev/null && echo links; touch /tmp/ok /workspace/ok && echo ok`),
			files: []runtime.File{{Path: "/data/a", Data: []byte("one ")}, {Path: "/workspace2/in/d/b", Data: []byte("two\n")}},
			check: stdoutIs("one two\nok\n")},
		{name: "inputs to be read in python", outcome: job.Exception, code: 1, check: exceptionIs("OSError"),
			edit: func(p *policy.Policy) { p.Read = []string{"/data"} }, run: py("print(open('/data/a').read()); open('/data/a', 'w')"),
			files: []runtime.File{{Path: "/data/a", Data: []byte("one")}}},
		{name: "inputs belong to the program", outcome: job.Succeeded, run: sh("echo more >>d/a && rm d/a && mkdir d/e && rm -r d"),
			files: []runtime.File{{Path: "/workspace/d/a", Data: []byte("x")}}},
		{name: "compiled files can be run and not be changed", outcome: job.Succeeded, check: stdoutIs("ran\n555\n"),
			run: sh(`{ echo x >>.out/main; } 2>/dev/null && echo writes; chmod 777 .out/main 2>/dev/null && echo chmods
				rm -f .out/main 2>/dev/null && echo removes; .out/main; stat -c %a .out/main`),
			files: []runtime.File{{Path: "/workspace/.out/main", Open: stream("#!/bin/sh\necho ran\n"), Compiled: true}}},
		{name: "inputs above the disk limit", outcome: job.SetupError, run: command("true"),
			edit:  func(p *policy.Policy) { p.Disk = job.MiB },
			files: []runtime.File{{Path: "/workspace/a", Data: bytes.Repeat([]byte("x"), 2<<20)}}},
		{name: "an input beneath another", outcome: job.SetupError, run: command("true"),
			files: []runtime.File{{Path: "/workspace/a", Data: []byte("x")}, {Path: "/workspace/a/b/c", Data: []byte("x")}}},
		{name: "an input where another is", outcome: job.SetupError, run: py("print(1)"),
			files: []runtime.File{{Path: "/workspace/a", Data: []byte("x")}, {Path: "/workspace/a", Data: []byte("y")}}},
		{name: "artifacts", outcome: job.Succeeded, edit: keep("/workspace/out/**", "/tmp/*.txt"),
			run:   sh("mkdir -p out/d; echo 1 >out/a; echo 2 >out/d/b; echo 3 >/tmp/c.txt; echo 4 >/tmp/d.bin; echo 5 >other"),
			check: artifactsAre(map[string]string{"/workspace/out/a": "1\n", "/workspace/out/d/b": "2\n", "/tmp/c.txt": "3\n"})},
		{name: "artifacts of a failure", outcome: job.Failed, code: 1, edit: keep("/workspace/log"), run: sh("echo why >log; exit 1"),
			check: artifactsAre(map[string]string{"/workspace/log": "why\n"})},
		{name: "artifacts of a program that was killed", outcome: job.OutOfMemory, run: sh("echo why >log; python3 -c 'x = bytearray(400 << 20)'"),
			edit:  func(p *policy.Policy) { p.Memory, p.Artifacts.Paths = 64*job.MiB, []string{"/workspace/log"} },
			check: artifactsAre(map[string]string{"/workspace/log": "why\n"})},
		{name: "links to the host", outcome: job.Succeeded, edit: keep("/workspace/**", "/workspace/dir/shadow"),
			run: sh("ln -s /etc/shadow shadow; ln -s /etc dir; ln -s ../../../../../../etc/shadow up; ln -s /proc/self/environ env; mkfifo fifo; echo ok >fine"),
			check: func(t *testing.T, r *ran) {
				artifactsAre(map[string]string{"/workspace/fine": "ok\n"})(t, r)
				for _, name := range []string{"shadow", "dir", "up", "env", "fifo"} {
					if name == "fifo" && strings.Contains(r.Enforcement[0].Applied, "gvisor") {
						continue // in the sandbox's kernel, not on this host
					}
					if !strings.Contains(strings.Join(r.Feedback, "\n"), `"/workspace/`+name+`"`) {
						t.Errorf("%s is not named as refused in %q", name, r.Feedback)
					}
				}
			}},
		{name: "a writable path that was replaced", outcome: job.Succeeded, edit: keep("/workspace/out/shadow"),
			run:   sh("mkdir out && rmdir out && ln -s /etc out; rm -rf /workspace 2>/dev/null; mv /workspace /tmp/w 2>/dev/null; true"),
			check: artifactsAre(map[string]string{})},
		{name: "too many artifacts", outcome: job.Succeeded, run: sh("for i in 1 2 3 4 5; do echo $i >$i; done"),
			edit: func(p *policy.Policy) { p.Artifacts.Paths, p.Artifacts.MaxFiles = []string{"/workspace/*"}, 2 },
			check: func(t *testing.T, r *ran) {
				artifactsAre(map[string]string{"/workspace/1": "1\n", "/workspace/2": "2\n"})(t, r)
				if len(r.Feedback) != 3 {
					t.Errorf("feedback = %q", r.Feedback)
				}
			}},
		{name: "sparse artifact", outcome: job.Succeeded, edit: keep("/workspace/*"), run: sh("truncate -s 1T huge; echo ok >fine"),
			check: artifactsAre(map[string]string{"/workspace/fine": "ok\n"})},
	}
}

func artifactsAre(want map[string]string) func(*testing.T, *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		if d := cmp.Diff(want, r.artifacts); d != "" {
			t.Errorf("artifacts (-want +got):\n%s", d)
		}
	}
}
