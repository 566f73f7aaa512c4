package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// TestSessionWalls attacks the boundaries between a session, its copies, and the processes that
// make them. Comments note the attacks that succeeded on 5ee7338.
func TestSessionWalls(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, story := range map[string]func(*testing.T, *fleet){
		"who makes a copy": whoMakesACopy, "capabilities": copyCapabilities, "ways to fork": copyWaysToFork,
		"ties": copyTies, "shared memory": copySharedMemory, "chance": copyChance, "owner": copyOwner,
	} {
		t.Run(name, func(t *testing.T) { story(t, f) })
	}
}

// whoMakesACopy watches every process that appears beside a session while boxes for its copies are
// made, and takes all it can from them. Its targets are their root (the cell's until they have left
// it, with the worker's socket), their memory, descriptors and namespaces, and control of them. It
// got all of these.
func whoMakesACopy(t *testing.T, f *fleet) {
	const watch = `
import ctypes, os, signal, socket, sys, time
_c = ctypes.CDLL(None, use_errno=True) # its name hides it: to show it, the session would fork a process of its own
def watch(stop):
    got, mine = set(), {os.getpid()}
    mine.update(int(n) for n in os.listdir("/proc/2/task"))  # those of the session itself
    def say(what):
        if what not in got:
            got.add(what)
            with open("/tmp/got.new", "w") as f: f.write("\n".join(sorted(got)))
            os.rename("/tmp/got.new", "/tmp/got")
    def take(pid):
        for name in "root/run/assay/slot", "root", "cwd", "fd", "mem", "ns/user", "ns/net", "environ":
            try:
                fd = os.open("/proc/%d/%s" % (pid, name), os.O_PATH if name[0] in "rc" else os.O_RDONLY)
            except OSError:
                continue
            say(name)
            if name == "root/run/assay/slot":
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                try:
                    s.connect("/proc/self/fd/%d/socket" % fd)
                    s.send(b"Zs")
                    say("the worker's socket")
                except OSError as e:
                    pass
            os.close(fd)
        if _c.ptrace(16, pid, 0, 0) == 0:
            say("ptrace")
            os.waitpid(pid, 0x40000000)
            _c.ptrace(17, pid, 0, 0)
    last = open("/proc/sys/kernel/ns_last_pid")
    end = time.monotonic() + 40
    while time.monotonic() < end and not os.path.exists("/tmp/end"):
        last.seek(0)
        n = int(last.read())
        for pid in n + 1, n, n - 1, n + 2:
            if pid > 2 and pid not in mine:
                if stop:
                    try: os.kill(pid, signal.SIGSTOP)
                    except OSError: continue
                take(pid)
                if stop:
                    try: os.kill(pid, signal.SIGCONT)
                    except OSError: pass
for stop in STOP:
    if os.fork() == 0:
        try: watch(stop)
        finally: os._exit(0)
`
	for name, stop := range map[string]string{"looks": "(False,)", "stops them": "(True,)"} {
		t.Run(name, func(t *testing.T) {
			id := f.session(t, job.SessionSpec{})
			f.execute(t, id, job.Succeeded, code(strings.ReplaceAll(watch, "STOP", stop)))
			for range 12 {
				s, err := f.api.ForkSession(t.Context(), id)
				if err != nil {
					t.Logf("fork: %v", err) // it may have been stopped, or killed
					continue
				}
				time.Sleep(10 * time.Millisecond) // the next box is made meanwhile
				if _, err := f.api.CloseSession(t.Context(), s.ID); err != nil {
					t.Fatal(err)
				}
			}
			e := f.execute(t, id, job.Succeeded, api.ExecuteRequest{Code: `
import os
open("/tmp/end", "w").close()
print(open("/tmp/got").read().split("\n") if os.path.exists("/tmp/got") else [])`})
			if e.Stdout.Text != "[]\n" {
				t.Errorf("it got at %s", e.Stdout.Text)
			}
			f.execute(t, id, job.Succeeded, code("1"))
		})
	}
}

// fork returns a copy of a session.
func (f *fleet) fork(t *testing.T, of job.ID) job.ID {
	t.Helper()
	s, err := f.api.ForkSession(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// powers defines powers(), which lists operations of the process that need a capability.
const powers = `
import ctypes, fcntl, os, socket, struct
c = ctypes.CDLL(None, use_errno=True)
def netlink(protocol, kind, flags, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    s.bind((0, 0))
    s.settimeout(2)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body)
    size, kind, _, _, _, error = struct.unpack("=IHHIIi", s.recv(65536)[:20])
    if error: raise OSError(-error, "refused")
def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)
def link(kind):
    info = attribute(1, kind + b"\0")
    netlink(0, 16, 0x600, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attribute(3, kind[:3] + b"7\0") + attribute(18, info))
def table():
    batch = struct.pack("=IHHII", 20, 0x10, 1, 0, 0) + struct.pack(">BBH", 0, 0, 10)
    name = attribute(1, b"t\0")
    one = struct.pack("=IHHII", 20 + len(name), 0xa00, 0x405, 1, 0) + struct.pack(">BBH", 2, 0, 0) + name
    end = struct.pack("=IHHII", 20, 0x11, 1, 2, 0) + struct.pack(">BBH", 0, 0, 10)
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    s.settimeout(2)
    s.send(batch + one + end)
    error = struct.unpack("=IHHIIi", s.recv(65536)[:20])[5]
    if error: raise OSError(-error, "refused")
def option(level, name, value=b"\1\0\0\0", s=None):
    s = s or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(level, name, value)
def down(s=None):
    fcntl.ioctl(s or socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack("16sH22x", b"lo", 0))
def call(*args):
    if c.syscall(*args) < 0: raise OSError(ctypes.get_errno(), "refused")
def write(path, text="1"):
    with open(path, "w") as f: f.write(text)
WAYS = {
    "nftables": table, "bridge": lambda: link(b"bridge"), "dummy": lambda: link(b"dummy"), "ifb": lambda: link(b"ifb"), "veth": lambda: link(b"veth"),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0), "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "raw6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58), "xfrm": lambda: netlink(6, 0x1d, 0, b""),
    "lo down": down, "SNDBUFFORCE": lambda: option(1, 32), "RCVBUFFORCE": lambda: option(1, 33), "MARK": lambda: option(1, 36),
    "transparent": lambda: option(0, 19), "debug": lambda: option(1, 1),
    "ip_forward": lambda: write("/proc/sys/net/ipv4/ip_forward"), "somaxconn": lambda: write("/proc/sys/net/core/somaxconn", "4096"),
    "shmmax": lambda: write("/proc/sys/kernel/shmmax"), "mqueue": lambda: write("/proc/sys/fs/mqueue/queues_max"), "inotify": lambda: write("/proc/sys/user/max_inotify_watches"),
    "mount": lambda: call(165, b"x", b"/tmp", b"tmpfs", 0, 0), "open_tree": lambda: call(428, -100, b"/tmp", 1), "fsopen": lambda: call(430, b"tmpfs", 0),
    "unshare": lambda: call(272, 0x20000), "unshare cgroup": lambda: call(272, 0x2000000), "sethostname": lambda: call(170, b"x", 1),
    "keyctl": lambda: call(250, 1, 0), "add_key": lambda: call(248, b"user", b"k", b"v", 1, -3), "bpf": lambda: call(321, 5, bytes(128), 128),
    "setuid": lambda: call(105, 0), "chroot": lambda: call(161, b"/tmp"), "capset": lambda: call(126, struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", 1 << 21, 1 << 21, 0, 0, 0, 0)),
    "bounding set": lambda: call(157, 24, 21, 0, 0, 0),
}
def powers():
    has = [l for l in open("/proc/self/status").read().split("\n") if l.startswith("Cap") and int(l.split()[1], 16)]
    for name, way in WAYS.items():
        try:
            way()
        except Exception:
            continue
        has.append(name)
    return has
`

// copyCapabilities makes a session try to keep the capabilities of its copies: by each of its own
// steps that could drop them, or run first with them. On 5ee7338 they kept all, and created tables,
// links and packet sockets.
func copyCapabilities(t *testing.T, f *fleet) {
	for name, prepare := range map[string]string{
		"as it is":                   "",
		"drops nothing":              "child.drop_privileges = lambda: None",
		"no capset":                  "child.capset = child.check = lambda *_: 0",
		"an early handler":           "os.register_at_fork(after_in_child=lambda: early.extend(powers()))",
		"a handler of the C library": "handler = ctypes.CFUNCTYPE(None)(lambda: early.extend(powers())); c.__register_atfork(None, None, handler, None)",
		"signals": `
import signal, threading, time
for n in (signal.SIGTRAP, signal.SIGUSR1, signal.SIGWINCH, signal.SIGCONT): signal.signal(n, lambda *_: early.extend(powers()))
def send():
    last = open("/proc/sys/kernel/ns_last_pid")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        last.seek(0)
        n = int(last.read())
        for pid in n, n + 1:
            for number in signal.SIGTRAP, signal.SIGUSR1, signal.SIGCONT:
                try: os.kill(pid, number)
                except OSError: break
if os.fork() == 0:
    send(); os._exit(0)`,
	} {
		id := f.session(t, job.SessionSpec{})
		f.execute(t, id, job.Succeeded, code(powers+"import sys\nearly = []\nchild, forks = sys.modules['_assay_child'], sys.modules['_assay_fork']\n"+prepare))
		for range 3 {
			s, err := f.api.ForkSession(t.Context(), id)
			if err != nil {
				t.Logf("%s: %v", name, err)
				continue
			}
			e := f.execute(t, s.ID, job.Succeeded, code("print(early, powers())"))
			if e.Stdout.Text != "[] []\n" {
				t.Errorf("%s: a copy has %s", name, e.Stdout.Text)
			}
		}
		e := f.execute(t, id, job.Succeeded, code("print(early, powers())"))
		if e.Stdout.Text != "[] []\n" {
			t.Errorf("%s: the session has %s", name, e.Stdout.Text)
		}
	}
}

// copyWaysToFork forks in ways that the worker does not expect. The intermediate process shares its
// memory or its descriptors with a process that can write to them, or can be reached. None of these
// makes a copy, and the session goes on.
func copyWaysToFork(t *testing.T, f *fleet) {
	for name, fork := range map[string]string{
		"shares memory":      "lambda: c.syscall(56, 0x100 | 17, 0, 0, 0, 0)",
		"shares descriptors": "lambda: c.syscall(56, 0x400 | 17, 0, 0, 0, 0)",
		"a sibling":          "lambda: c.syscall(56, 0x8000 | 17, 0, 0, 0, 0)",
		"no signal":          "lambda: c.syscall(56, 0, 0, 0, 0, 0)",
		"dumpable":           "lambda: c.prctl(4, 1, 0, 0, 0) or real()",
		"nothing":            "lambda: 4711",
		"keeps no namespace": "lambda: os.closerange(6, 4000) or real()",
		"exits":              "lambda: os._exit(0) if real() == 0 else 4711",
		"untraceable":        "lambda: 0/0",
	} {
		id := f.session(t, job.SessionSpec{})
		f.execute(t, id, job.Succeeded, code(`
import ctypes, os, sys
c = ctypes.PyDLL(None, use_errno=True)
forks = sys.modules["_assay_fork"]
class C:
    def __getattr__(self, name): return mine if name == "fork" else getattr(c, name)
real = c.fork
mine = `+fork+`
forks.c = C()`))
		s, err := f.api.ForkSession(t.Context(), id)
		if err == nil && name != "exits" {
			t.Errorf("%s made %+v", name, s)
		} else if err == nil {
			if e, err := f.api.Execute(t.Context(), s.ID, code("1")); err == nil && e.Outcome == job.Succeeded {
				t.Errorf("%s made %+v", name, e)
			}
		}
		if name == "nothing" || name == "untraceable" || name == "dumpable" {
			f.execute(t, id, job.Succeeded, code("1"))
		}
	}
}

// copyTies copies a session that holds connections to others. On 5ee7338 its copies wrote to its
// pipes, sockets, queues and files in memory.
func copyTies(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code(`
import os, select, socket, tempfile
reader, writer = os.pipe()
one, two = socket.socketpair()
memory = os.memfd_create("m")
deleted = tempfile.TemporaryFile()
listener = socket.create_server(("127.0.0.1", 0))
watch = select.epoll(); watch.register(reader)
name = open("/usr/lib/os-release", "rb", buffering=0)
event = os.eventfd(0) if hasattr(os, "eventfd") else os.memfd_create("e")
kept = open("/dev/null", "wb", buffering=0)`))
	a := f.fork(t, id)
	e := f.execute(t, a, job.Succeeded, code(`
def tie(act):
    try: return bool(act())
    except OSError: return False
ties = {
    "pipe": lambda: os.write(writer, b"x"), "socket": lambda: one.send(b"x"), "memory": lambda: os.pwrite(memory, b"x", 0),
    "deleted": lambda: os.pwrite(deleted.fileno(), b"x", 0), "listener": lambda: listener.listen() or True,
    "epoll": lambda: watch.modify(reader, 0) or True, "event": lambda: os.write(event, b"\1" + bytes(7)),
}
print([k for k, act in ties.items() if tie(act)], os.read(reader, 1), name.seek(5), kept.write(b"x"))`))
	if e.Stdout.Text != "[] b'' 5 1\n" {
		t.Errorf("a copy has ties: %s", e.Stdout.Text)
	}
	e = f.execute(t, id, job.Succeeded, code(`
os.set_blocking(reader, False); two.setblocking(False)
def nothing(act):
    try: return act()
    except BlockingIOError: return None
print(nothing(lambda: os.read(reader, 1)), nothing(lambda: two.recv(1)), os.fstat(memory).st_size, name.tell(), one.send(b"x"), os.write(writer, b"x"))`))
	if e.Stdout.Text != "None None 0 0 1 1\n" {
		t.Errorf("the session noticed its copy: %s", e.Stdout.Text)
	}
	says := f.execute(t, id, job.Succeeded, code("[n for n in range(200) if os.path.lexists('/proc/self/fd/%d' % n) and os.readlink('/proc/self/fd/%d' % n).split(':')[0] in ('user', 'mnt', 'net')]"))
	if says.Value == nil || says.Value.Repr != "[]" {
		t.Errorf("the session keeps namespaces of its copy: %+v", says.Value)
	}
}

// copySharedMemory checks that a copy is refused, with the reason, if it would share memory. On
// 5ee7338 each side saw the other's writes.
func copySharedMemory(t *testing.T, f *fleet) {
	for name, share := range map[string]string{
		"anonymous": "m = mmap.mmap(-1, 4096)", "of a file": "f = open('f', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)",
		"read only": "f = open('f', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ)",
		"in memory": "f = os.memfd_create('f'); os.ftruncate(f, 4096); m = mmap.mmap(f, 4096)",
		"System V":  "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; at = c.shmat(c.shmget(0, 4096, 0o600), None, 0)\nclass m:\n    close = lambda: c.shmdt(ctypes.c_void_p(at))",
		"of numpy":  "import numpy\nm = numpy.memmap('n', mode='w+', shape=4096)._mmap",
	} {
		id := f.session(t, job.SessionSpec{})
		f.execute(t, id, job.Succeeded, code("import mmap, os\n"+share))
		if _, err := f.api.ForkSession(t.Context(), id); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "share") {
			t.Errorf("%s: %v", name, err)
		}
		f.execute(t, id, job.Succeeded, code("m.close()"))
		f.execute(t, f.fork(t, id), job.Succeeded, code("1"))
	}
}

// copyChance uses many random generators before a fork, and in a copy of a copy whose parent did
// not use them. On 5ee7338 OpenSSL's generator continued equally in all, and so did the names of
// temporary files.
func copyChance(t *testing.T, f *fleet) {
	const use = `
import email.generator, hashlib, multiprocessing, numpy, os, random, secrets, ssl, tempfile, uuid
def chance():
    stamp = uuid.uuid1()
    return [multiprocessing.current_process().authkey.hex(), "%x-%x" % (stamp.clock_seq, stamp.node), email.generator._make_boundary(), ssl.RAND_bytes(8).hex(), secrets.token_hex(8), random.random(), numpy.random.random(), uuid.uuid4().hex, next(tempfile._get_candidate_names()), os.getpid() if os.getpid() == 2 else None]
_ = chance()`
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code(use))
	a := f.fork(t, id)
	aa, ab, b := f.fork(t, a), f.fork(t, a), f.fork(t, id)
	aaa := f.fork(t, aa)
	seen := map[string]job.ID{}
	for _, s := range []job.ID{id, aaa, aa, ab, b, a} {
		e := f.execute(t, s, job.Succeeded, code("for v in chance():\n    if v is not None: print(v)"))
		for v := range strings.FieldsSeq(e.Stdout.Text) {
			if other, ok := seen[v]; ok {
				t.Errorf("%s came twice, in %s and %s", v, other, s)
			}
			seen[v] = s
		}
	}
}

// copyOwner: a session owns its copies' user namespaces, and so may do much to processes in them
// that execute something. It takes their sockets and namespaces, and tries to use them. On 5ee7338
// it took lo down, and set options that need CAP_NET_ADMIN, by a socket; it entered no namespace.
func copyOwner(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code(powers))
	a := f.fork(t, id)
	f.execute(t, a, job.Succeeded, code(`
import subprocess
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/hand")
server.listen()
if os.fork() == 0:
    while True:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.accept()[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", s.fileno()))])
p = subprocess.Popen(["sleep", "100"])`))
	e := f.execute(t, id, job.Succeeded, code(`
got, has = [], []
for pid in (int(p) for p in os.listdir("/proc") if p.isdigit()):
    if pid in (1, os.getpid()): continue
    for space in "user", "net", "mnt", "pid", "ipc", "uts", "cgroup":
        try:
            fd = os.open("/proc/%d/ns/%s" % (pid, space), os.O_RDONLY)
        except OSError:
            continue
        got.append(space)
        if c.setns(fd, 0) == 0: has.append("setns " + space)
        for request in 0xb701, 0xb702, 0xb704:  # user namespace, parent, owner
            try: got.append(hex(request)); up = fcntl.ioctl(fd, request, bytes(4)) if request == 0xb704 else fcntl.ioctl(fd, request)
            except OSError: continue
            if request != 0xb704 and c.setns(up, 0) == 0: has.append("setns above " + space)
    handle = c.syscall(434, pid, 0)
    if handle >= 0 and c.setns(handle, 0x10000000) == 0: has.append("setns process")
    if c.syscall(438, handle, 5, 0) >= 0: has.append("a descriptor of a process")
    try:
        s = socket.socket(socket.AF_UNIX)
        s.connect("/proc/%d/root/tmp/hand" % pid)
        _, ((_, _, fd),), _, _ = s.recvmsg(1, 64)
    except OSError: continue
    taken = socket.socket(fileno=struct.unpack("i", fd)[0])
    got.append("socket")
    for name, act in {"lo down": lambda: down(taken), "SNDBUFFORCE": lambda: option(1, 32, s=taken), "MARK": lambda: option(1, 36, s=taken),
        "transparent": lambda: option(0, 19, s=taken), "iptables": lambda: option(0, 64, bytes(1000), s=taken), "device": lambda: option(1, 25, b"lo\0", s=taken)}.items():
        try: act()
        except PermissionError: continue
        except OSError as e: name += " %d" % e.errno
        has.append(name)
for space in os.listdir("/proc/self/ns"):  # its own, and the cell's above
    fd = os.open("/proc/self/ns/" + space, os.O_RDONLY)
    for request in 0xb701, 0xb702:
        try: up = fcntl.ioctl(fd, request)
        except OSError: continue
        same = os.fstat(up).st_ino == os.stat("/proc/self/ns/user").st_ino
        if not same: has.append("sees above its own " + space)
print(has, "socket" in got and "net" in got)`))
	if e.Stdout.Text != "[] True\n" {
		t.Errorf("a session has of its copy: %s", e.Stdout.Text)
	}
	f.execute(t, a, job.Succeeded, code("import urllib.request\nserver = socket.create_server(('127.0.0.1', 0)); _ = socket.create_connection(server.getsockname())"))
}
