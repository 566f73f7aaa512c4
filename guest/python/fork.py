"""Copies of a live interpreter.

A session's process forks itself into a box that was made for the copy, inside
the box that it is in itself: see guest.Box, nested. The worker hands it the
copy's slot and, over that, the namespaces of the box, which is made meanwhile;
this module takes the copy there, with what was written to its files, and leaves
the capabilities behind that entering them brought.

Only the thread that executes is copied; other threads and processes stay where
they are. Standard library only, for Python 3.8 and later; it is loaded by a
zygote, of whose module child it borrows much.
"""

import ctypes
import mmap
import os
import stat
import sys

child = sys.modules["_assay_child"]
python = ctypes.pythonapi
c = ctypes.PyDLL(None, use_errno=True)  # whose calls keep python's lock: there is nobody to share it with

# The same numbers as in every session: see session.serve and harness.run.
RESULT, CONVERSATION = 4, 5

# The process in between, for x86-64: long enter(int *spaces, long n, pid_t (*fork)(void), struct order *stack).
# It returns twice: in the process that called, with the pid of the one in between, which has ended then with the
# number of an error as its status, and in the copy, with 0. Until that has ended the two share all memory, so it uses
# a stack of its own, below the order. The copy says that it is there before it returns: the worker has work to do then,
# and python needs 200 pages copied to get over a fork.
BETWEEN = bytes.fromhex(
    "53 55 4154 4155 4156"  # push rbx, rbp, r12, r13, r14
    "4889e3"  # mov rbx, rsp
    "4989fc 4989f5 4989d6"  # mov r12, rdi (spaces); r13, rsi (n); r14, rdx (fork)
    "4889cd"  # mov rbp, rcx (stack)
    "31f6 31d2 4531d2 4531c0"  # the other arguments of clone are 0
    "bf11410000"  # mov edi, CLONE_VM | CLONE_VFORK | SIGCHLD
    "b838000000 0f05"  # clone
    "4885c0 0f8589000000"  # not 0: to the end
    "4889ec"  # mov rsp, rbp
    "4d85ed 741b"  # while n is not 0
    "418b3c24 31f6 b834010000 0f05"  # setns(*spaces, 0)
    "4885c0 7831"  # below 0: failed
    "4983c404 49ffcd ebe0"  # the next one
    "41ffd6"  # call fork
    "85c0 742c"  # 0: the copy
    "89c7 c1ff1f 83e70b 751b"  # exit with EAGAIN if it is below 0
    "488b7d00 31f6 31d2 4c8d5508 b8ca000000 0f05"  # futex(order->gate, FUTEX_WAIT, 0, &order->patience)
    "31ff eb04"  # exit with 0
    "89c7 f7df"  # failed: exit with the error
    "b8e7000000 0f05"  # exit_group
    "488b7d18 4885ff 7412"  # the copy: unless order->area is 0
    "8b7520 31d2 41ba53300553 b84e010000 0f05"  # rseq(order->area, order->size, 0, its signature)
    "8b7d28 488d7530 ba01000000 b801000000 0f05"  # write(order->slot, &order->word, 1)
    "4889dc 31c0"  # back to the stack that it was called on, with 0
    "415e 415d 415c 5d 5b c3"  # the end: pop r14, r13, r12, rbp, rbx; ret
)
STACK = 256 << 10  # bytes; untouched ones cost nothing. What fork does, and what libraries do at a fork
PATIENCE = 50_000_000  # nanoseconds that a process waits for its copy to be ready, at most
PR_GET_DUMPABLE = 3
# For x86-64, from the kernel's and the C library's headers.
SYS_ARCH_PRCTL, ARCH_GET_FS = 158, 0x1003
SYS_FUTEX, FUTEX_WAKE, RSEQ_SIZE = 202, 1, 32
enter = order = kept = None  # made by the first copy
gate = None  # memory that a process shares with its copy


class Order(ctypes.Structure):
    _fields_ = [
        ("gate", ctypes.c_void_p),
        ("patience", ctypes.c_long * 2),  # seconds, nanoseconds
        ("area", ctypes.c_void_p),  # of restartable sequences
        ("size", ctypes.c_long),
        ("slot", ctypes.c_long),
        ("word", ctypes.c_long),
    ]


def copy(slot, prepare):
    """Fork. Returns 0 in the copy, which has then begun its own attempt.

    The namespaces to enter come over the slot, when their box is made. prepare is
    called in the copy while the worker makes its attempt ready.

    Otherwise it is a process in between, to be reaped: only a fork takes a
    process into a pid namespace. How it fared the worker is told over the slot.
    """
    left = leave()
    box = child._socket.socket(fileno=os.dup(slot))
    _, spaces = child.receive(box, 16)
    box.close()
    if not spaces:
        left.close()
        raise RuntimeError("there is no box for the copy")
    try:
        return enter_box(slot, spaces, left, prepare)
    finally:
        for space in spaces:
            os.close(space)


def enter_box(slot, spaces, left, prepare):
    python.PyOS_BeforeFork()
    between, failed = lent(slot, spaces) or forked(slot, spaces)
    if between != 0:
        python.PyOS_AfterFork_Parent()
        left.close()
        if failed:
            child.refuse(slot, failed)
        child.check(between, "fork")
        return between
    python.PyOS_AfterFork_Child()
    if failed:
        fail(slot, failed)
    try:
        arrive(slot, left)
        prepare()
        begin(slot)
    except BaseException as e:
        fail(slot, e)
    return 0


def lent(slot, spaces):
    """Fork with a process in between that borrows this one's memory, for which this thread waits.

    A copy of all page tables is saved, and its end. And that waits for the copy to
    be ready, because the two share a processor, and somebody waits for the copy
    only: what this process has to do next is in the way of that. The result is that
    of forked, or None where there is no code for the machine.
    """
    if os.uname().machine != "x86_64" or sys.maxsize < 1 << 32:
        return None
    global enter, order, kept, gate
    if enter is None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        code = mmap.mmap(-1, len(BETWEEN), private)
        code.write(BETWEEN)
        if c.mprotect(ctypes.c_void_p(address(code)), ctypes.c_size_t(len(BETWEEN)), mmap.PROT_READ | mmap.PROT_EXEC) < 0:
            return None
        room = mmap.mmap(-1, STACK, private)
        enter = ctypes.PYFUNCTYPE(ctypes.c_long, *[ctypes.c_void_p] * 4)(address(code))
        order = Order.from_buffer(room, STACK - ctypes.sizeof(Order))
        order.patience[1], order.word = PATIENCE, ord("h")
        order.area, order.size = sequences()
        kept = code, room
    gate = mmap.mmap(-1, mmap.PAGESIZE)
    order.gate, order.slot = address(gate), slot
    fds = (ctypes.c_int * len(spaces))(*spaces)
    visible = c.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
    between = enter(ctypes.addressof(fds), len(spaces), ctypes.cast(c.fork, ctypes.c_void_p), ctypes.addressof(order))
    if between == 0:
        return 0, None
    gate = None
    if visible == 1:  # who gets capabilities hides the memory, and it is ours, too
        c.prctl(child.PR_SET_DUMPABLE, 1, 0, 0, 0)
    if between < 0:
        ctypes.set_errno(-between)
        return -1, None
    try:
        status = os.waitid(os.P_PID, between, os.WEXITED | os.WNOWAIT).si_status
    except ChildProcessError:  # the program's children are nobody's business
        status = 0
    return between, OSError(status, "enter the box of the copy") if status else None


def sequences():
    """Address and size of what the kernel tells this thread's restartable sequences: on which processor they run.

    It stops for a process that borrows memory, and what such a one forks inherits
    that. The C library does not notice, and sched_getcpu() stands still. So the copy
    asks for it again.
    """
    try:
        offset = ctypes.c_ssize_t.in_dll(c, "__rseq_offset").value
        size = ctypes.c_uint.in_dll(c, "__rseq_size").value
    except ValueError:
        return None, 0  # a C library without them
    thread = ctypes.c_ulong()
    if size == 0 or c.syscall(SYS_ARCH_PRCTL, ARCH_GET_FS, ctypes.byref(thread)) < 0:
        return None, 0
    return thread.value + offset, max(size, RSEQ_SIZE)


def release():
    """Let the process that this is a copy of go on."""
    global gate
    if gate is not None:
        gate[0] = 1
        c.syscall(SYS_FUTEX, ctypes.c_void_p(address(gate)), FUTEX_WAKE, 1)
        gate = None


def address(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def forked(slot, spaces):
    """Fork twice. Returns what fork did, and what failed.

    The process in between does next to nothing, because each page that it touches
    is one more to copy.
    """
    between = c.fork()
    if between != 0:
        return between, None
    for space in spaces:
        if c.setns(space, 0) < 0:
            return 0, OSError(ctypes.get_errno(), "enter the box of the copy")
    copied = c.fork()
    if copied > 0:
        c._exit(0)
    if copied == 0:
        c.write(slot, b"h", 1)
    return 0, OSError(ctypes.get_errno(), "fork") if copied < 0 else None


def fail(slot, e):
    release()
    child.refuse(slot, e if isinstance(e, OSError) else OSError(0, "%s: %s" % (type(e).__name__, e)))
    os._exit(1)


# What must be known before the old files are out of sight


class Left:
    directory = "/"
    trees = ()  # (path, descriptor) of each writable directory
    files = ()  # (descriptor, path, flags, offset) of each open file in them

    def close(self):
        for _, fd in self.trees:
            os.close(fd)


def leave():
    global scratch
    if scratch is None:
        scratch = list(writable())
    left = Left()
    left.trees = [(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY)) for path in scratch]
    ours = {fd for _, fd in left.trees}
    left.files = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > CONVERSATION and fd not in ours:
            found = open_file(fd, left.trees)
            if found:
                left.files.append(found)
    try:
        left.directory = os.getcwd()
    except OSError:
        pass
    return left


scratch = None  # the paths of writable(): no program can change them, and a copy has the same


def writable():
    """The directories of the scratch: binds of its w0, w1, …"""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields = line.split()
            root, path, options = fields[3], fields[4], fields[5].split(",")
            if root[:2] == "/w" and root[2:].isdigit() and "rw" in options:
                yield path.encode().decode("unicode_escape").encode("latin-1").decode()


def open_file(fd, trees):
    try:
        path = os.readlink("/proc/self/fd/%d" % fd)
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or not any(path == t or path.startswith(t + "/") for t, _ in trees):
            return None
        with open("/proc/self/fdinfo/%d" % fd) as f:
            info = dict(line.split(":", 1) for line in f if ":" in line)
        return fd, path, int(info["flags"], 8), int(info["pos"])
    except (OSError, KeyError, ValueError):
        return None


# In the box


def arrive(slot, left):
    if os.read(slot, 16) != b"g":
        os._exit(0)
    for path, fd in left.trees:
        copy_tree(fd, path)
    left.close()
    for fd, path, flags, offset in left.files:
        reopen(fd, path, flags, offset)
    child.check(child.libc.unshare(child.CLONE_NEWCGROUP), "make a cgroup namespace")
    child.drop_privileges()
    try:
        os.chdir(left.directory)
    except OSError:
        os.chdir("/")
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    os.write(slot, b"w")


def reopen(fd, path, flags, offset):
    """Have a descriptor mean the copy of its file. That of one that is deleted stays."""
    try:
        new = os.open(path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        if not flags & os.O_DIRECTORY:
            os.lseek(new, offset, os.SEEK_SET)
        os.dup2(new, fd, os.get_inheritable(fd))
        os.close(new)
    except OSError:
        pass


def copy_tree(source, target):
    """Copy what is in the directory that source is open on to the path target."""
    links = {}  # of files that have several names: inode → the first one's copy
    todo, times = [""], []
    while todo:
        here = todo.pop()
        directory = os.open(here or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=source)
        try:
            for entry in os.scandir(directory):
                name = os.path.join(here, entry.name)
                to = os.path.join(target, name)
                s = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(s.st_mode):
                    os.mkdir(to)
                    todo.append(name)
                    times.append((to, s))
                elif stat.S_ISLNK(s.st_mode):
                    os.symlink(os.readlink(entry.name, dir_fd=directory), to)
                    os.utime(to, ns=(s.st_atime_ns, s.st_mtime_ns), follow_symlinks=False)
                elif s.st_nlink > 1 and s.st_ino in links:
                    os.link(links[s.st_ino], to)
                elif stat.S_ISREG(s.st_mode):
                    links[s.st_ino] = to
                    copy_file(entry.name, directory, to, s)
                elif stat.S_ISFIFO(s.st_mode):
                    os.mkfifo(to)
                    adjust(to, s)
        finally:
            os.close(directory)
    for to, s in reversed(times):
        adjust(to, s)


def adjust(path, s):
    os.chmod(path, stat.S_IMODE(s.st_mode))
    os.utime(path, ns=(s.st_atime_ns, s.st_mtime_ns))


def copy_file(name, directory, to, s):
    """Copy a file with its holes."""
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    target = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(target, s.st_size)
        at = 0
        while at < s.st_size:
            try:
                at = os.lseek(source, at, os.SEEK_DATA)
            except OSError:  # a hole up to its end
                break
            end = os.lseek(source, at, os.SEEK_HOLE)
            os.lseek(target, at, os.SEEK_SET)
            while at < end:
                n = os.sendfile(target, source, at, end - at)
                if n == 0:
                    return  # it was cut meanwhile
                at += n
    finally:
        os.close(source)
        os.close(target)
    adjust(to, s)


# Its own attempt


def begin(slot):
    """Take over the descriptors of the copy's attempt, but for its streams: a session captures those itself. All others stay open."""
    conn = child._socket.socket(fileno=slot)
    message, files = child.receive(conn)
    if not message:
        os._exit(0)  # there is no use for the copy any more
    if message[:1] == b"X":
        *files, paper = files
        os.close(paper)
    os.dup2(files[0], 0)
    os.dup2(files[4], RESULT, False)
    os.dup2(files[5], CONVERSATION, False)
    for fd in files:
        os.close(fd)
    conn.close()
    child.libc.prctl(child.PR_SET_DUMPABLE, 1, 0, 0, 0)
