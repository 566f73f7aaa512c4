"""Copies of a live interpreter.

A session's process forks into a box for the copy, nested inside its own box: see guest.Box. The worker sends it the
copy's slot and, over the slot, the namespaces of the box, which is created meanwhile. The worker stops the process at
the fork, moves the copy into the box, and resumes both, so no code here ever has a capability. This module only
copies the written files and cuts every other connection.

Only the executing thread is copied; other threads and processes stay. Standard library only, for Python 3.8 and
later. A zygote loads it; it uses much of the zygote's module child.
"""

import ctypes
import os
import stat
import sys

child = sys.modules["_assay_child"]
python = ctypes.pythonapi
c = ctypes.PyDLL(None, use_errno=True)  # its calls keep Python's lock: there are no other threads

RESULT, STREAM = child.harness.RESULT, child.harness.STREAM
NEW = 0, 1, 2, RESULT, STREAM  # descriptors that a copy gets anew
PR_GET_DUMPABLE = 3


def copy(slot, prepare):
    """Fork. Return 0 in the copy, which has then started its own attempt.

    The namespaces of the copy arrive over the slot when their box is complete. prepare is called in the copy while
    the worker prepares its attempt.

    Otherwise return an intermediate process to reap, because only a fork enters a pid namespace. The worker has its
    result.
    """
    left = leave(slot)
    box = child._socket.socket(fileno=os.dup(slot))
    _, spaces = child.receive(box, 16)
    box.close()
    if not spaces:
        left.close()
        raise RuntimeError("there is no box for the copy")
    # Clear PR_SET_DUMPABLE before the fork, because the child will briefly have capabilities. A copy stays undumpable
    # for ever, because its parent owns the user namespace of its box.
    visible = c.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
    c.prctl(child.PR_SET_DUMPABLE, 0, 0, 0, 0)
    python.PyOS_BeforeFork()
    between = c.fork()
    if between != 0:
        python.PyOS_AfterFork_Parent()
        c.prctl(child.PR_SET_DUMPABLE, visible, 0, 0, 0)
        left.close()
        for space in spaces:
            os.close(space)
        child.check(between, "fork")
        return between
    python.PyOS_AfterFork_Child()
    try:
        for space in spaces:
            os.close(space)
        arrive(slot, left)
        prepare()
        begin(slot)
    except BaseException as e:
        fail(slot, e)
    return 0


def fail(slot, e):
    child.refuse(slot, e if isinstance(e, OSError) else OSError(0, "%s: %s" % (type(e).__name__, e)))
    os._exit(1)


# State to collect before the old files are out of sight


class Left:
    directory = "/"
    trees = ()  # (path, descriptor) of each writable directory
    files = ()  # (descriptor, path, flags, offset) of each open file in them and in the image
    ties = ()  # every other descriptor: pipes, sockets, files in memory and so on

    def close(self):
        for _, fd in self.trees:
            os.close(fd)


def leave(slot):
    global scratch
    if scratch is None:
        scratch = list(child.writable())
    left = Left()
    left.trees = [(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY)) for path in scratch]
    ours = {fd for _, fd in left.trees}
    left.files, left.ties = [], []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd not in NEW and fd not in ours and fd != slot:
            found = open_file(fd)
            if found:
                left.files.append(found)
            elif not harmless(fd):
                left.ties.append(fd)
    try:
        left.directory = os.getcwd()
    except OSError:
        pass
    return left


scratch = None  # the paths of child.writable(): programs cannot change them, and a copy has the same


def open_file(fd):
    """Return the data to reopen a file, or None for objects without a path."""
    try:
        path = os.readlink("/proc/self/fd/%d" % fd)
        s = os.fstat(fd)
        if not (stat.S_ISREG(s.st_mode) or stat.S_ISDIR(s.st_mode)) or not os.path.samestat(s, os.stat(path)):
            return None
        with open("/proc/self/fdinfo/%d" % fd) as f:
            info = dict(line.split(":", 1) for line in f if ":" in line)
        return fd, path, int(info["flags"], 8), int(info["pos"])
    except (OSError, KeyError, ValueError):
        return None


def harmless(fd):
    """Report whether a descriptor is a device that is the same in every sandbox, such as /dev/null."""
    try:
        s = os.fstat(fd)
    except OSError:
        return True  # closed: it was used to list the others
    return stat.S_ISCHR(s.st_mode) and os.major(s.st_rdev) == 1


# In the box


def arrive(slot, left):
    for path, fd in left.trees:
        copy_tree(fd, path)
    left.close()
    for fd, path, flags, offset in left.files:
        if not reopen(fd, path, flags, offset):
            left.ties.append(fd)
    cut(left.ties)
    os.setsid()
    try:
        os.chdir(left.directory)
    except OSError:
        os.chdir("/")
    renew()
    os.write(slot, child.BOX_WAITING)


def renew():
    """Renew the random state that a copy must not share with its original.

    The module random has renewed its own generator. OpenSSL and tempfile see that the process is another one. Generators
    that the session made itself go on as they were.
    """
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._generate_time_safe = uuid._node = uuid._last_timestamp = None  # the first keeps a clock sequence, in C


def reopen(fd, path, flags, offset):
    """Make a descriptor refer to the copy of its file. Return whether it does."""
    new = -1
    try:
        new = os.open(path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        if not flags & os.O_DIRECTORY:
            os.lseek(new, offset, os.SEEK_SET)
        os.dup2(new, fd, os.get_inheritable(fd))
    except OSError:
        return False
    finally:
        if new >= 0:
            os.close(new)
    return True


def cut(ties):
    """Make descriptors refer to a connection whose other end is closed: reads return the end, writes fail."""
    dead, other = child._socket.socketpair()
    other.close()
    for fd in ties:
        os.dup2(dead.fileno(), fd, os.get_inheritable(fd))
    dead.close()


def copy_tree(source, target):
    """Copy the content of the directory at the descriptor source to the path target."""
    links = {}  # for files with several names: inode → the first copy
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
                    return  # it was truncated meanwhile
                at += n
    finally:
        os.close(source)
        os.close(target)
    adjust(to, s)


# Its own attempt


def begin(slot):
    """Take over the descriptors of the copy's attempt, except its streams, which a session captures itself. All
    others stay open.
    """
    conn = child._socket.socket(fileno=slot)
    message, files = child.receive(conn)
    if not message:
        os._exit(0)  # the copy is not needed any more
    if message[:1] == child.BOX_RUN_FILE:
        *files, paper = files
        os.close(paper)
    os.dup2(files[0], 0)
    os.dup2(files[4], RESULT, False)
    os.dup2(files[5], STREAM, False)
    for fd in files:
        os.close(fd)
    conn.close()
