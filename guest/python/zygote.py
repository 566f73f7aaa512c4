"""An interpreter that is ready to be forked.

Started by the launcher of a cell as: zygote.py SOCKET KIND MODULE...; it imports
the harness and the modules, connects to the worker and then forks one process for
each slot that it is asked for. The protocol is documented in internal/guest
(cell.go). Each process enters the namespaces of a box that the launcher made,
drops every privilege, waits for its job, and becomes it.

The zygote itself never runs user code. It holds CAP_SYS_ADMIN and
CAP_SYS_PTRACE in the user namespace of its cell, which is what entering a
namespace takes, and nothing outside of it.

Started as zygote.py alone, it forks nothing: its descriptor 3 is the slot of
the one job that it waits for, and it holds no privileges to begin with.

Standard library only, for Python 3.8 and later with ctypes. Without them it
exits with a sentence that says so, and the worker starts a fresh interpreter
for each job instead.
"""

import sys

try:
    import ctypes
except ImportError as e:
    sys.exit("the image's python has no ctypes: %s" % e)

import _signal  # signal itself makes an enumeration of each number
import _socket  # socket itself makes hundreds of constants
import atexit
import gc
import importlib
import importlib.util
import json
import os
import resource
import select
import struct
import threading

import harness

# What snippets import most. Each costs every fork a little, and its own import
# is saved by every job that wants it. Not hashlib: it brings OpenSSL along, and
# with it a tenth to the price of a fork.
MODULES = (
    "ast base64 bisect collections contextlib copy dataclasses datetime decimal enum fractions functools "
    "heapq inspect io itertools json linecache math operator random re statistics string textwrap time traceback "
    "types typing"
).split()

# Numbers of the kernel, from its headers.
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
ENTER = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
PROT_READ, PROT_WRITE, PROT_EXEC, MAP_PRIVATE, MAP_ANONYMOUS = 1, 2, 4, 0x02, 0x20
MADV_HUGEPAGE, MREMAP_MAYMOVE, MREMAP_FIXED = 14, 1, 2
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 4, 22, 24
# Missing from ctypes.CDLL(None) where the C library has no wrapper.
SYS_CLOSE_RANGE = 436

MAX_MESSAGE = 32 << 10
MAX_RUN = 4 << 20
HEAD = struct.Struct("<B3xIIIIxxxxQ")
FILES = [struct.Struct("%di" % n) for n in range(17)]
NAME, ENDED, PROGRAM = struct.Struct("<Q"), struct.Struct("<QI"), struct.Struct("HxxxxxxP")
HIGH = 100  # above every descriptor that a program is given

SOL_SOCKET, SCM_RIGHTS = _socket.SOL_SOCKET, _socket.SCM_RIGHTS

# To look something up is to write to it (its count of references), and each page
# that a child writes to for the first time is copied for it. So what children
# need is bound to names here. No call below waits, so none need give python's
# lock away; _quick is for those whose errors nobody asks for.
libc = ctypes.PyDLL(None, use_errno=True)
setns, unshare, prctl, capset, syscall = libc.setns, libc.unshare, libc.prctl, libc.capset, libc.syscall
_quick = ctypes.PyDLL(None).prctl
chdir, close, dup2, getpid, putenv, read = os.chdir, os.close, os.dup2, os.getpid, os.putenv, os.read
setsid, waitpid, write = os.setsid, os.waitpid, os.write
setrlimit = resource.setrlimit
_environment = os.environ._data
_scan = json.JSONDecoder().scan_once
_filter = ctypes.create_string_buffer(32 << 10)
_filter_at, _memmove = ctypes.addressof(_filter), ctypes.memmove
_main_thread = threading.main_thread()
with open("/proc/sys/kernel/cap_last_cap") as f:
    bounding = range(int(f.read()) + 1)
_empty_capabilities = (ctypes.c_uint32 * 6)()
_capability_header = (ctypes.c_uint32 * 2)(0x20080522, 0)


def check(result, what):
    if result < 0:
        e = ctypes.get_errno()
        raise OSError(e, "%s: %s" % (what, os.strerror(e)))


SERVICES = "_assay_session", "assay_solution", "assay_check"


def preload_services():
    """Have ready what grades, and what serves sessions: some jobs are nothing else.

    They are under names that no user's import asks for.
    """
    import assay_check  # noqa: F401
    import assay_solution  # noqa: F401

    sys.modules["_assay_zygote"] = sys.modules[__name__]
    for name in "session", "fork":
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
        spec = importlib.util.spec_from_file_location("_assay_" + name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["_assay_" + name] = module


def main(path, kind, modules):
    for name in MODULES + modules:
        try:
            importlib.import_module(name)
        except ImportError as e:
            print("cannot preload %s: %s" % (name, e), file=sys.stderr)
    if kind == "s":
        preload_services()
    move_text()
    warm_up(kind == "s")
    worker = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    worker.connect(path)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    names = {}  # process → the worker's name for it
    # Deaths are read from a descriptor: a handler of the interpreter runs between
    # instructions only, and so not while the next message is waited for, if the
    # signal came just before that wait began. The launcher ignores it.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGCHLD])
    deaths = signalfd(_signal.SIGCHLD)
    events = select.poll()
    events.register(worker, select.POLLIN)
    events.register(deaths, select.POLLIN)
    worker.send(b"Z" + kind.encode())
    ours = sys.modules["__main__"]  # noqa: F841: a module that nobody holds is emptied
    rehearsal, program = harness.prepare(), harness.prepare()
    seeds = generators()
    # os.fork() has every module get over the loss of its threads. There are none,
    # so the child does what is left of that itself: a third of the cost of a fork.
    fork = os.fork if modules else libc.fork
    # What is alive now stays so: the collector shall not touch, and so copy, it.
    gc.collect()
    give_back()
    gc.disable()
    filled = fill_pools()  # noqa: F841
    gc.freeze()
    while True:
        for source, _ in events.poll():
            if source == deaths:
                read(deaths, 4096)
                bury(worker, names)
                continue
            message, files = receive(worker, MAX_MESSAGE)
            if not message:
                os._exit(0)
            (name,) = NAME.unpack_from(message, 1)
            slot, box = files
            pid = -1
            try:
                check(setns(box, CLONE_NEWPID), "enter the pid namespace")
                pid = fork()
            except OSError as e:
                refuse(slot, e)
            if pid == 0:
                child(slot, box, worker, seeds, rehearsal, program)
            if pid > 0:
                names[pid] = name
            check(setns(own, CLONE_NEWPID), "leave the pid namespace")
            close(slot)
            close(box)


def give_back():
    """Return what was freed to the system: compiling modules leaves holes of many pages.

    Each page that is mapped here is mapped for every child, and unmapped again.
    """
    trim = getattr(ctypes.PyDLL(None), "malloc_trim", None)  # of the GNU library
    if trim:
        trim(ctypes.c_size_t(0))


def generators():
    """What seeds the generators of random numbers anew, each without looking further."""
    seeds = []
    if "random" in sys.modules:
        random = sys.modules["random"]
        # Its own seed() looks at many pages for what is to be done with None.
        seeds.append(super(random.Random, random._inst).seed if hasattr(random, "_inst") else random.seed)
    if "numpy.random" in sys.modules:
        seeds.append(sys.modules["numpy.random"].seed)
    return seeds


def signalfd(number):
    """A descriptor that can be read when the (blocked) signal is pending."""
    mask = (ctypes.c_ulong * 16)()  # sigset_t
    mask[0] = 1 << (number - 1)
    fd = libc.signalfd(-1, mask, os.O_CLOEXEC)
    check(fd, "signalfd")
    return fd


def bury(worker, names):
    """Tell the worker how its processes ended."""
    while names:
        pid, status = waitpid(-1, 1)  # WNOHANG
        if pid == 0:
            return
        worker.send(b"e" + ENDED.pack(names.pop(pid), status))


def alone():
    """Wait for one job and become it: in a sandbox of its own."""
    slot = _socket.socket(fileno=3)
    preload_services()
    warm_up()
    ours = sys.modules["__main__"]  # noqa: F841
    program = harness.prepare()
    gc.collect()
    slot.send(b"w")
    live(slot, program)


def move_text():
    """Move the interpreter's text to huge pages, where the system has some.

    A forked process inherits them whole. Pages of a file it finds one fault after
    the other, about 60, and has to give back one by one.
    """
    size = 2 << 20
    inside = ctypes.cast(ctypes.pythonapi.PyEval_EvalCode, ctypes.c_void_p).value
    begin = end = file = 0
    with open("/proc/self/maps") as f:
        for line in f:
            addresses, access, _, device, inode = line.split(None, 5)[:5]
            first, last = (int(x, 16) for x in addresses.split("-"))
            if first != end or file != (device, inode) or "w" in access:
                if begin <= inside < end:
                    break
                begin = last if "w" in access else first
            end, file = last, (device, inode)
    begin, end = -(-begin // size) * size, end // size * size
    length = end - begin
    if length <= 0:
        return
    calls = ctypes.PyDLL(None)  # of its own: the types below are for these calls only
    span = [ctypes.c_void_p, ctypes.c_size_t]
    calls.mmap.argtypes = span + [ctypes.c_int] * 3 + [ctypes.c_long]
    calls.madvise.argtypes = calls.mprotect.argtypes = span + [ctypes.c_int]
    calls.munmap.argtypes = span
    calls.mremap.argtypes = span + [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    calls.mmap.restype = calls.mremap.restype = ctypes.c_void_p
    room = calls.mmap(None, length + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if room == ctypes.c_void_p(-1).value:
        return
    at = -(-room // size) * size
    calls.madvise(at, length, MADV_HUGEPAGE)
    ctypes.memmove(at, begin, length)
    moved = (
        calls.mprotect(at, length, PROT_READ | PROT_EXEC) == 0
        and calls.mremap(at, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == begin
    )
    calls.munmap(room, at - room)
    calls.munmap(at + length, size - (at - room))
    if not moved:
        calls.munmap(at, length)


def warm_up(services=False):
    """Run jobs, so that the first of everything happens here and not in each child.

    Once is not enough: the interpreter rewrites a function when it has run often.
    """
    main = sys.modules["__main__"]
    out, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for _ in range(16):
        reader, writer = os.pipe()
        harness.prepare()(_scan('{"code": "x = [1]\\nprint(x)", "variables": {}}', 0)[0], writer)  # closes it
        os.close(reader)
    if services:
        for _ in range(16):
            for name in SERVICES:
                sys.modules[name].rehearse()
    os.dup2(out, 1)
    os.close(out)
    os.close(null)
    sys.modules["__main__"] = main


def fill_pools():
    """Objects that take up the gaps between those that are there.

    What a child makes goes to fresh memory then, side by side, and not into gaps
    on pages all over the place, each of which would have to be copied for it.
    """
    filled = []
    head = sys.getsizeof(b"")
    for size in range(48, 513, 16):
        last = streak = 0
        for _ in range(2000):
            gap = bytes(size - head)
            filled.append(gap)
            streak = streak + 1 if id(gap) == last + size else 0
            last = id(gap)
            if streak == 6:  # a new pool
                break
    return filled


def receive(conn, size):
    """One message and the descriptors that came with it."""
    message, control, _, _ = conn.recvmsg(size, 80)  # 16 descriptors
    files = []
    for level, kind, data in control:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            files += FILES[len(data) // 4].unpack(data)
    return message, files


def refuse(slot, error):
    try:
        os.write(slot, b"!" + struct.pack("<I", error.errno or 0) + str(error).encode())
    except OSError:
        pass


def child(slot, box, worker, seeds, rehearsal, program):
    """The process of one job, from its fork to its end."""
    conn = worker.fileno()
    try:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        dup2(slot, conn, False)  # the zygote's own is out of reach
        enter(box, slot, seeds)
        close(slot)
    except OSError as e:
        refuse(conn, e)
        os._exit(1)
    except BaseException:
        os._exit(1)
    live(worker, program, rehearsal)


def live(slot, program, rehearsal=None):
    """Wait for a job, become it, and end with it."""
    code = 1
    try:
        try:
            become = wait(slot, rehearsal)
        except OSError as e:
            refuse(slot.fileno(), e)
            os._exit(1)
        if become is None:
            os._exit(0)  # the worker had no job for it
        slot.detach()
        become()
        code = program(request(), 4)
    except SystemExit as e:
        code = harness._exit_code(e.code)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            finish()
        finally:
            os._exit(code)


def enter(box, slot, seeds):
    """Go behind the walls of a box, and leave every privilege outside."""
    check(setns(box, ENTER), "enter the box")
    write(slot, b"h")
    if read(slot, 16) != b"g":
        os._exit(0)
    check(unshare(CLONE_NEWCGROUP), "make a cgroup namespace")
    drop_privileges()
    for seed in seeds:
        seed()
    _main_thread._native_id = getpid()
    write(slot, b"w")


def drop_privileges():
    for c in bounding:
        _quick(PR_CAPBSET_DROP, c, 0, 0, 0)
    check(capset(_capability_header, _empty_capabilities), "drop capabilities")
    setsid()


def wait(conn, rehearsal):
    """The next program, as a function that turns this process into it."""
    message, files = receive(conn, MAX_MESSAGE)
    if message == b"r":
        if "_assay_session" in sys.modules:
            sys.modules["_assay_session"].rehearse()
        else:
            rehearsal(_scan('{"code": "x = [1]\\nprint(end=str())"}', 0)[0], -1)
        message, files = receive(conn, MAX_MESSAGE)
    if not message:
        return None
    if message[:1] == b"X":
        with os.fdopen(files.pop(), "rb") as f:
            message = f.read(MAX_RUN)
    _, paths, argc, envc, size, open_files = HEAD.unpack_from(message)
    seccomp = message[HEAD.size : HEAD.size + size]
    strings = message[HEAD.size + size :].split(b"\0")
    directory = strings[0]
    first = 1 + paths + argc
    environment = strings[first : first + envc]

    def become():
        chdir(directory)
        for entry in environment:
            key, _, value = entry.partition(b"=")
            putenv(key, value)
            _environment[key] = value
        high = HIGH
        for fd in files:
            dup2(fd, high)
            high += 1
        for i in range(len(files)):
            dup2(HIGH + i, i, i < 3)
        syscall(SYS_CLOSE_RANGE, len(files), 0xFFFFFFFF, 0)
        setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        if seccomp:
            _memmove(_filter_at, seccomp, len(seccomp))
            check(prctl(PR_SET_SECCOMP, 2, PROGRAM.pack(len(seccomp) // 8, _filter_at), 0, 0), "install the filter")

    return become


def request():
    """The request on descriptor 3."""
    data = b""
    while True:
        part = read(3, 16 << 10 if len(data) < 64 << 10 else 1 << 20)
        if not part:
            break
        data += part
    close(3)
    document, _ = _scan(data.decode(), 0)
    gc.enable()
    return document


def finish():
    """What the interpreter does at its end that a program can notice."""
    # To find that there is nothing to do, the two would touch 80 pages.
    if len(threading._active) > 1 or threading._limbo or getattr(threading, "_threading_atexits", None):
        _quietly(threading._shutdown)
    if atexit._ncallbacks():
        _quietly(atexit._run_exitfuncs)
    harness._flush()


def _quietly(f):
    try:
        f()
    except BaseException:
        pass


if __name__ == "__main__":
    os.environ.clear()
    if sys.argv[1] == "alone":
        alone()
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
