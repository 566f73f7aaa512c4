"""Copies of a live interpreter.

A session's process forks itself into a box that was made for the copy, inside
the box that it is in itself: see guest.Box, nested. The worker hands it the
copy's slot and the namespaces of that box; this module takes the copy there,
with what was written to its files, and leaves the capabilities behind that
entering them brought.

Only the thread that executes is copied; other threads and processes stay where
they are. Standard library only, for Python 3.8 and later; it is loaded by a
zygote, whose module it borrows.
"""

import ctypes
import os
import random
import stat
import sys

zygote = sys.modules["_assay_zygote"]
python = ctypes.pythonapi
c = ctypes.PyDLL(None, use_errno=True)  # whose calls keep python's lock: there is nobody to share it with

# The same numbers as in every session: see session.serve and harness.run.
RESULT, CONVERSATION = 4, 5


def copy(slot, spaces):
    """Fork. Returns 0 in the copy, which has then begun its own attempt.

    Otherwise it is a process in between, to be reaped: only a fork takes a
    process into a pid namespace. How it fared the worker is told over the slot.
    That process does next to nothing, because each page that it touches is one
    more to copy; what python does after a fork is for the copy alone.
    """
    left = leave()
    python.PyOS_BeforeFork()
    first = c.fork()
    if first != 0:
        python.PyOS_AfterFork_Parent()
        left.close()
        zygote.check(first, "fork")
        return first
    failed = None
    for space in spaces:
        if c.setns(space, 0) < 0:
            failed = "enter the box of the copy"
            break
    else:
        second = c.fork()
        if second > 0:
            c._exit(0)
        if second < 0:
            failed = "fork"
    python.PyOS_AfterFork_Child()
    if failed:
        fail(slot, OSError(ctypes.get_errno(), failed))
    try:
        for space in spaces:
            os.close(space)
        arrive(slot, left)
        begin(slot)
    except BaseException as e:
        fail(slot, e)
    return 0


def fail(slot, e):
    zygote.refuse(slot, e if isinstance(e, OSError) else OSError(0, "%s: %s" % (type(e).__name__, e)))
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
    left = Left()
    left.trees = [(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY)) for path in writable()]
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
    os.write(slot, b"h")
    if os.read(slot, 16) != b"g":
        os._exit(0)
    for path, fd in left.trees:
        copy_tree(fd, path)
    left.close()
    for fd, path, flags, offset in left.files:
        reopen(fd, path, flags, offset)
    zygote.check(zygote.libc.unshare(zygote.CLONE_NEWCGROUP), "make a cgroup namespace")
    zygote.drop_privileges()
    try:
        os.chdir(left.directory)
    except OSError:
        os.chdir("/")
    random.seed()
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
    """Take over the descriptors of the copy's attempt. All others stay open."""
    conn = zygote._socket.socket(fileno=slot)
    message, files = zygote.receive(conn, zygote.MAX_MESSAGE)
    if not message:
        os._exit(0)  # there is no use for the copy any more
    if message[:1] == b"X":
        os.close(files.pop())
    standard, result, conversation = files[:3], files[4], files[5]
    for i, fd in enumerate(standard):
        os.dup2(fd, i)
    os.dup2(result, RESULT, False)
    os.dup2(conversation, CONVERSATION, False)
    for fd in files:
        os.close(fd)
    conn.close()
    zygote.libc.prctl(zygote.PR_SET_DUMPABLE, 1, 0, 0, 0)
