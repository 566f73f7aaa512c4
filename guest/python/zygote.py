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

import _socket  # socket itself makes hundreds of constants
import atexit
import gc
import importlib
import importlib.util
import json
import os
import resource
import select
import signal
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
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 4, 22, 24
# Missing from ctypes.CDLL(None) where the C library has no wrapper.
SYS_CLOSE_RANGE = 436

MAX_MESSAGE = 32 << 10
MAX_RUN = 4 << 20
HEAD = struct.Struct("<B3xIIIIxxxxQ")
HIGH = 100  # above every descriptor that a program is given

SOL_SOCKET, SCM_RIGHTS = _socket.SOL_SOCKET, _socket.SCM_RIGHTS

libc = ctypes.CDLL(None, use_errno=True)
with open("/proc/sys/kernel/cap_last_cap") as f:
    bounding = range(int(f.read()) + 1)
_empty_capabilities = (ctypes.c_uint32 * 6)()
_capability_header = (ctypes.c_uint32 * 2)(0x20080522, 0)


def check(result, what):
    if result < 0:
        e = ctypes.get_errno()
        raise OSError(e, "%s: %s" % (what, os.strerror(e)))


def preload_services():
    """Have ready what grades, and what serves sessions: some jobs are nothing else.

    They are under names that no user's import asks for.
    """
    import assay_grade  # noqa: F401

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
    warm_up()
    worker = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    worker.connect(path)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    names = {}  # process → the worker's name for it
    # Deaths are read from a descriptor: a handler of the interpreter runs between
    # instructions only, and so not while the next message is waited for, if the
    # signal came just before that wait began. The launcher ignores it.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    deaths = signalfd(signal.SIGCHLD)
    events = select.poll()
    events.register(worker, select.POLLIN)
    events.register(deaths, select.POLLIN)
    worker.send(b"Z" + kind.encode())
    # What is alive now stays so: the collector shall not touch, and so copy, it.
    gc.collect()
    gc.disable()
    filled = fill_pools()  # noqa: F841
    gc.freeze()
    # os.fork() has every module get over the loss of its threads. There are none,
    # so the child does what is left of that itself: a third of the cost of a fork.
    fork = os.fork if modules else ctypes.PyDLL(None).fork
    while True:
        for source, _ in events.poll():
            if source == deaths:
                os.read(deaths, 4096)
                bury(worker, names)
                continue
            message, files = receive(worker, MAX_MESSAGE)
            if not message:
                os._exit(0)
            (name,) = struct.unpack("<Q", message[1:9])
            slot, box = files
            pid = -1
            try:
                check(libc.setns(box, CLONE_NEWPID), "enter the pid namespace")
                pid = fork()
            except OSError as e:
                refuse(slot, e)
            if pid == 0:
                child(slot, box, worker, own)
            if pid > 0:
                names[pid] = name
            check(libc.setns(own, CLONE_NEWPID), "leave the pid namespace")
            os.close(slot)
            os.close(box)


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
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        worker.send(b"e" + struct.pack("<QI", names.pop(pid), status))


def alone():
    """Wait for one job and become it: in a sandbox of its own."""
    slot = _socket.socket(fileno=3)
    preload_services()
    warm_up()
    gc.collect()
    slot.send(b"w")
    live(slot)


def warm_up():
    """Run a job, so that the first of everything happens here and not in each child."""
    main = sys.modules["__main__"]
    reader, writer = os.pipe()
    harness.run(json.loads('{"code": "x = [1]\\nx", "variables": {}}'), writer)  # closes it
    os.close(reader)
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
    message, control, _, _ = conn.recvmsg(size, 128)
    files = []
    for level, kind, data in control:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            files += struct.unpack("%di" % (len(data) // 4), data)
    return message, files


def refuse(slot, error):
    try:
        os.write(slot, b"!" + struct.pack("<I", error.errno or 0) + str(error).encode())
    except OSError:
        pass


def child(slot, box, worker, own):
    """The process of one job, from its fork to its end."""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(slot, worker.fileno(), False)  # the zygote's own is out of reach
        enter(box, slot)
        os.close(slot)
    except OSError as e:
        refuse(worker.fileno(), e)
        os._exit(1)
    except BaseException:
        os._exit(1)
    live(worker)


def live(slot):
    """Wait for a job, become it, and end with it."""
    code = 1
    try:
        try:
            run = wait(slot)
        except OSError as e:
            refuse(slot.fileno(), e)
            os._exit(1)
        if run is None:
            os._exit(0)  # the worker had no job for it
        slot.detach()
        run()
        code = job()
    except SystemExit as e:
        code = harness._exit_code(e.code)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            finish(code)
        finally:
            os._exit(code)


def enter(box, slot):
    """Go behind the walls of a box, and leave every privilege outside."""
    check(libc.setns(box, ENTER), "enter the box")
    os.write(slot, b"h")
    if os.read(slot, 16) != b"g":
        os._exit(0)
    check(libc.unshare(CLONE_NEWCGROUP), "make a cgroup namespace")
    drop_privileges()
    for generator in "random", "numpy.random":
        if generator in sys.modules:
            sys.modules[generator].seed()
    threading.main_thread()._set_native_id()
    os.write(slot, b"w")


def drop_privileges():
    for c in bounding:
        libc.prctl(PR_CAPBSET_DROP, c, 0, 0, 0)
    check(libc.capset(_capability_header, _empty_capabilities), "drop capabilities")
    os.setsid()


def wait(conn):
    """The next program, as a function that turns this process into it."""
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
        os.chdir(directory)
        for entry in environment:
            key, _, value = entry.partition(b"=")
            os.environb[key] = value
        high = range(HIGH, HIGH + len(files))
        for fd, target in zip(files, high):
            os.dup2(fd, target)
        for i, fd in enumerate(high):
            os.dup2(fd, i, i < 3)
        libc.syscall(SYS_CLOSE_RANGE, len(files), 0xFFFFFFFF, 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        if seccomp:
            code = ctypes.create_string_buffer(seccomp, len(seccomp))
            program = struct.pack("HxxxxxxP", len(seccomp) // 8, ctypes.addressof(code))
            check(libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0), "install the filter")

    return become


def job():
    """Run the request on descriptor 3, and write the result to descriptor 4."""
    data = b""
    while True:
        part = os.read(3, 1 << 20)
        if not part:
            break
        data += part
    os.close(3)
    request = json.loads(data)
    gc.enable()
    return harness.run(request, 4)


def finish(code):
    """What the interpreter does at its end that a program can notice."""
    # To find that there is nothing to do, the two would touch 80 pages.
    if len(threading._active) > 1 or threading._limbo or getattr(threading, "_threading_atexits", None):
        _quietly(threading._shutdown)
    if atexit._ncallbacks():
        _quietly(atexit._run_exitfuncs)
    _quietly(lambda: sys.stdout.flush())
    _quietly(lambda: sys.stderr.flush())


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
