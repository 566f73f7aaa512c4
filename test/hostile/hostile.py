"""Common functions of the corpus' python programs. It is in their directory."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
mark, bait, port = (os.environ.get("HOSTILE_" + n, "") for n in ("MARK", "FILE", "PORT"))
addresses = os.environ.get("HOSTILE_ADDRESSES", "").split()


def escaped(what):
    """Report a breach, and end with a failure."""
    os.write(1, ("ESCAPED: %s\n" % (what,)).encode("utf-8", "replace"))
    os._exit(42)


def contained():
    """Report that no attack worked."""
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


def ask(data, timeout=3):
    """Send bytes to the job's proxy; its answer, b"" if it hung up."""
    import socket
    from urllib.parse import urlsplit

    at = urlsplit(os.environ.get("HTTP_PROXY") or os.environ["http_proxy"])
    s = socket.create_connection((at.hostname, at.port), timeout)
    s.settimeout(timeout)
    got = b""
    try:
        s.sendall(data)
        while len(got) < 65536:
            more = s.recv(4096)
            if not more:
                break
            got += more
    except OSError:
        pass
    s.close()
    return got


def no_way(data, timeout=3):
    """Send bytes to the job's proxy, which must let nothing through."""
    got = ask(data, timeout)
    for line in got.split(b"\r\n"):
        if line.startswith(b"HTTP/1.") and line[9:10] == b"2":
            escaped("%r gave %r" % (data[:80], got[:80]))
    return got


def socks(request, greeting=b"\x05\x01\x00"):
    """Send a SOCKS5 request, which must be refused."""
    import socket
    from urllib.parse import urlsplit

    at = urlsplit(os.environ.get("ALL_PROXY") or os.environ["HTTP_PROXY"])
    s = socket.create_connection((at.hostname, at.port), 3)
    s.settimeout(3)
    try:
        s.sendall(greeting)
        s.recv(2)
        s.sendall(request)
        got = s.recv(64)
    except OSError:
        got = b""
    s.close()
    if len(got) > 1 and got[1] == 0:
        escaped("%r gave %r" % (request, got))
