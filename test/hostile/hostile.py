"""What the python programs of the corpus share. It lies beside them."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
mark, bait, port = (os.environ.get("HOSTILE_" + n, "") for n in ("MARK", "FILE", "PORT"))
addresses = os.environ.get("HOSTILE_ADDRESSES", "").split()


def escaped(what):
    """Say that a wall did not hold, and end with a failure."""
    os.write(1, ("ESCAPED: %s\n" % (what,)).encode("utf-8", "replace"))
    os._exit(42)


def contained():
    """Say that every wall held."""
    os.write(1, b"contained\n")


def refused(what, f, *args, **kwargs):
    """Call f, which must raise."""
    try:
        got = f(*args, **kwargs)
    except Exception:
        return
    escaped("%s gave %r" % (what, got))


def call(name, *args):
    """Call a function of the C library; its -1 is an OSError."""
    got = getattr(libc, name)(*args)
    if got == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return got


def write(path, data):
    """Write to a file that must be there."""
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def read(path, n=64):
    """Read the first bytes of a file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, n)
    finally:
        os.close(fd)
