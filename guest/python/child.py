"""Fork a process for each slot of a zygote, and run it.

The process enters the namespaces of a box from the launcher, drops every privilege, waits for its job, and becomes
it. internal/guest (doc.go) documents the protocol.

Every access to an object is a write (to its reference count), and the first write of a child to a page copies it:
half of a short program's cost. So this module binds many names, creates few objects, and zygote.py loads it last.

Standard library only, for Python 3.8 and later with ctypes.
"""

import _signal  # signal itself creates an enumeration of each number
import _socket  # socket itself creates hundreds of constants
import atexit
import ctypes
import gc
import json
import os
import resource
import select
import struct
import sys
import threading

import harness

# Constants of the kernel's headers.
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
ENTER = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 4, 22, 24
SIG_SETMASK = 2
# Missing from ctypes.CDLL(None) if the C library has no wrapper.
SYS_CLOSE_RANGE = 436

# Protocol constants, with the same names and values as in package internal/guest.
ZYGOTE_HELLO, ZYGOTE_ENDED = b"Z", b"e"
BOX_READY, BOX_ENTER, BOX_WAITING, BOX_WARM_UP, BOX_RUN_FILE, BOX_FAILED = b"h", b"g", b"w", b"r", b"X", b"!"
ZYGOTE = 3  # a zygote's connection to the worker
REQUEST, RESULT = harness.REQUEST, harness.RESULT
MAX_MESSAGE = 32 << 10
MAX_RUN = 4 << 20
HEAD = struct.Struct("<B3xIIIIIQ")
HEAD_SIZE = HEAD.size
FILES = [struct.Struct("%di" % n) for n in range(17)]
NAME, ENDED, PROGRAM = struct.Struct("<Q"), struct.Struct("<QI"), struct.Struct("HxxxxxxP")
USER = 1000  # of a program in its box
HIGH = 100  # above every descriptor of a program, like guest.SlotFD

SOL_SOCKET, SCM_RIGHTS = _socket.SOL_SOCKET, _socket.SCM_RIGHTS

# No call of libc here blocks, so none releases Python's lock. _quick is for calls whose errors are ignored.
libc = ctypes.PyDLL(None, use_errno=True)
_fflush = harness._fflush = ctypes.PyDLL(None).fflush
setns, unshare, prctl, capset, syscall = libc.setns, libc.unshare, libc.prctl, libc.capset, libc.syscall
_quick, sigprocmask = ctypes.PyDLL(None).prctl, libc.sigprocmask
chdir, close, dup2, getpid, putenv, read = os.chdir, os.close, os.dup2, os.getpid, os.putenv, os.read
setsid, waitpid, write = os.setsid, os.waitpid, os.write
setresgid, setresuid = os.setresgid, os.setresuid
setrlimit, RLIMIT_NOFILE, RLIMIT_STACK = resource.setrlimit, resource.RLIMIT_NOFILE, resource.RLIMIT_STACK
STACK_HARD = 1 << 31  # in the stack of a message, whose other bits are KiB
_stack_most = resource.getrlimit(RLIMIT_STACK)[1]
_environment = os.environ._data
_head, _files, _split, _partition = HEAD.unpack_from, [f.unpack for f in FILES], bytes.split, bytes.partition
_scan = json.JSONDecoder().scan_once
_fflush = libc.fflush
_no_signals = ctypes.create_string_buffer(128)  # sigset_t
_filter = ctypes.create_string_buffer(32 << 10)
_filter_at, _memmove = ctypes.addressof(_filter), ctypes.memmove
_main_thread = threading.main_thread().__dict__
_threads, _starting, _thread_exits = threading._active, threading._limbo, getattr(threading, "_threading_atexits", None)
_exit, _exit_handlers, _collect_again = os._exit, atexit._ncallbacks, gc.enable
with open("/proc/sys/kernel/cap_last_cap") as f:
    bounding = range(int(f.read()) + 1)
_empty_capabilities = (ctypes.c_uint32 * 6)()
_capability_header = (ctypes.c_uint32 * 2)(0x20080522, 0)


def check(result, what):
    if result < 0:
        fail(what)


def fail(what):
    e = ctypes.get_errno()
    raise OSError(e, "%s: %s" % (what, os.strerror(e)))


def serve(kind, hooks, settle):
    """Fork a process for each slot that the worker sends over descriptor 3, until it disconnects.

    hooks means that a preload must be notified of forks. settle is called when the zygote is idle, and returns the
    function that runs the program.
    """
    worker = _socket.socket(fileno=ZYGOTE)
    conn = worker.fileno()
    os.set_inheritable(conn, False)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    names = {}  # process → the worker's name for it
    # Child deaths are read from a descriptor. A Python handler runs between instructions only, so it would be delayed
    # if the signal came just before the blocking read. The launcher ignores the signal.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    deaths_only(_signal.SIGCHLD)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGCHLD])
    deaths = signalfd(_signal.SIGCHLD)
    events = select.poll()
    events.register(worker, select.POLLIN)
    events.register(deaths, select.POLLIN)
    worker.send(ZYGOTE_HELLO + kind.encode())
    seeds = reseeders()
    # os.fork() makes every module reset its thread state. There are no threads, so the child does the necessary part
    # itself. This saves a third of a fork's cost.
    fork = os.fork if hooks else libc.fork
    program = settle()
    more = False
    while True:
        if more:
            more = reap(worker, names)
        for source, _ in events.poll(0 if more else None):
            if source == deaths:
                read(deaths, 384)
                more = reap(worker, names)
                continue
            message, files = receive(worker, 64)
            if not message:
                os._exit(0)
            (name,) = NAME.unpack_from(message, 1)
            slot, box = files
            pid = -1
            try:
                if setns(box, CLONE_NEWPID) < 0:
                    fail("enter the pid namespace")
                pid = fork()
                if pid < 0:
                    fail("fork")
            except OSError as e:
                refuse(slot, e)
            if pid == 0:
                child(slot, box, conn, worker, seeds, program)
            if pid > 0:
                names[pid] = name
            if setns(own, CLONE_NEWPID) < 0:
                fail("leave the pid namespace")
            close(slot)
            close(box)


def reseeders():
    """Return functions that reseed the random number generators."""
    seeds = []
    if "random" in sys.modules:
        random = sys.modules["random"]
        # Its own seed() touches many pages to detect the missing argument.
        seeds.append(super(random.Random, random._inst).seed if hasattr(random, "_inst") else random.seed)
    if "numpy.random" in sys.modules:
        seeds.append(sys.modules["numpy.random"].seed)
    return seeds


def signalfd(number):
    """Return a descriptor that is readable when the (blocked) signal is pending."""
    mask = (ctypes.c_ulong * 16)()  # sigset_t
    mask[0] = 1 << (number - 1)
    fd = libc.signalfd(-1, mask, os.O_CLOEXEC)
    check(fd, "signalfd")
    return fd


def deaths_only(number):
    """Limit the signal SIGCHLD to deaths, without stops: a job can stop and continue without end."""
    action = ctypes.create_string_buffer(160)  # struct sigaction: the default, no mask
    struct.pack_into("i", action, 136, 1)  # SA_NOCLDSTOP
    check(libc.sigaction(number, action, None), "sigaction")


def reap(worker, names):
    """Report the ends of processes to the worker. Return whether there may be more to reap.

    Jobs can influence these events. A traced process or thread is reported at each stop, and a job can orphan
    processes to the zygote. Such processes are unknown and ignored.
    """
    for _ in range(64):  # then look for messages from the worker
        try:
            pid, status = waitpid(-1, 1)  # WNOHANG
        except ChildProcessError:
            return False
        if pid == 0:
            return False
        if status & 0xFF != 0x7F and pid in names:  # it has not just stopped
            worker.send(ZYGOTE_ENDED + ENDED.pack(names.pop(pid), status))
    return True


def receive(conn, size=MAX_MESSAGE):
    """Return one message and its descriptors."""
    message, control, _, _ = conn.recvmsg(size, 80)  # 16 descriptors
    files = ()
    for level, kind, data in control:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            files += _files[len(data) // 4](data)
    return message, files


def refuse(slot, error):
    try:
        os.write(slot, BOX_FAILED + struct.pack("<I", error.errno or 0) + str(error).encode())
    except OSError:
        pass


def child(slot, box, conn, worker, seeds, program):
    """Run the process of one job from its fork to its end. conn is the descriptor of worker."""
    try:
        sigprocmask(SIG_SETMASK, _no_signals, None)
        dup2(slot, conn, False)  # replaces the zygote's own connection
        enter(box, slot, seeds)
        close(slot)
    except OSError as e:
        refuse(conn, e)
        os._exit(1)
    except BaseException:
        os._exit(1)
    live(worker, program)


def writable():
    """Yield the paths of the scratch: binds of its w0, w1, …, and overlays over directories of the image."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields = line.split()
            root, path, options = fields[3], fields[4], fields[5].split(",")
            over = fields[fields.index("-") + 1] == "overlay" and root == path
            if (over or root[:2] == "/w" and root[2:].isdigit()) and "rw" in options:
                yield path.encode().decode("unicode_escape").encode("latin-1").decode()


def live(slot, program):
    """Wait for a job, become it, and end with it."""
    code = 1
    try:
        try:
            program_of = wait(slot)
        except OSError as e:
            refuse(slot.fileno(), e)
            os._exit(1)
        if program_of is None:
            os._exit(0)  # the worker had no job for it
        slot.detach()
        become(*program_of)
        asked = request()
        if "preload" in asked:
            become(*preload(asked["preload"], program))
            asked = request()
        code = program(asked, RESULT)
    except SystemExit as e:
        code = harness._exit_code(e)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            finish()
        finally:
            _exit(code)


def preload(source, program):
    """Import the worker's modules and be forked: see preload.py, whose text is source.

    It returns in the forked processes, like wait.
    """
    module = type(sys)("_assay_preload")
    module.__file__ = "<_assay_preload>"
    exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
    return module.serve(program)


def enter(box, slot, seeds):
    """Enter a box and drop every privilege."""
    check(setns(box, ENTER), "enter the box")
    setresgid(USER, USER, USER)
    setresuid(USER, USER, USER)
    write(slot, BOX_READY)
    if read(slot, 16) != BOX_ENTER:
        os._exit(0)
    check(unshare(CLONE_NEWCGROUP), "make a cgroup namespace")
    drop_privileges()
    for seed in seeds:
        seed()
    _main_thread["_native_id"] = getpid()
    write(slot, BOX_WAITING)


def drop_privileges():
    for c in bounding:
        _quick(PR_CAPBSET_DROP, c, 0, 0, 0)
    check(capset(_capability_header, _empty_capabilities), "drop capabilities")
    setsid()


def wait(conn):
    """Return the message for the next program and its files, or None if there is none."""
    message, files = receive(conn)
    if message == BOX_WARM_UP:  # only in zygotes for services
        sys.modules["_assay_session"].warm_up()
        message, files = receive(conn)
    if not message:
        return None
    if message[:1] == BOX_RUN_FILE:
        *files, paper = files
        with os.fdopen(paper, "rb") as f:
            message = f.read(MAX_RUN)
    return message, files


def become(message, files):
    """Turn this process into the program in a message."""
    _, paths, argc, envc, size, stack, open_files = _head(message)
    end = HEAD_SIZE + size
    strings = _split(message[end:], b"\0")
    chdir(strings[0])
    first = 1 + paths + argc
    for i in range(first, first + envc):
        entry = strings[i]
        key, _, value = _partition(entry, b"=")
        putenv(key, value)
        _environment[key] = value
    high = HIGH
    for fd in files:
        dup2(fd, high)
        high += 1
    for i in range(len(files)):
        dup2(HIGH + i, i, i < 3)
    check(syscall(SYS_CLOSE_RANGE, len(files), 0xFFFFFFFF, 0), "close files that are not the program's")
    setrlimit(RLIMIT_NOFILE, (open_files, open_files))
    if stack:
        soft = (stack & ~STACK_HARD) << 10
        setrlimit(RLIMIT_STACK, (soft, soft if stack & STACK_HARD else _stack_most))
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    if size:
        _memmove(_filter_at, message[HEAD_SIZE:end], size)
        check(prctl(PR_SET_SECCOMP, 2, PROGRAM.pack(size // 8, _filter_at), 0, 0), "install the filter")


def request():
    """Return the request."""
    data = b""
    while True:
        part = read(REQUEST, 16 << 10 if len(data) < 64 << 10 else 1 << 20)
        if not part:
            break
        data += part
    close(REQUEST)
    document, _ = _scan(data.decode(), 0)
    _collect_again()
    return document


def finish():
    """Perform the steps of the interpreter's end that a program can notice, including C's flush."""
    # Even without work, the two functions would touch 80 pages.
    if len(_threads) > 1 or _starting or _thread_exits:
        _quietly(threading._shutdown)
    if _exit_handlers():
        _quietly(atexit._run_exitfuncs)
    harness._flush()
    _fflush(None)


def _quietly(f):
    try:
        f()
    except BaseException:
        pass
